// SPDX-License-Identifier: BSD-3-Clause
// The status document of a ControlWorld, read as `rocemu status` reads it.
#pragma once

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/control_world.h"

namespace rocemu::test {

inline nlohmann::json status_of(const ControlWorld& world) {
    ControlClient tool(world.path());
    REQUIRE(tool.hello(true) == 0);
    std::string text;
    abi::AdminTextReply r;
    do {
        abi::AdminTextRequest q;
        q.offset = static_cast<uint32_t>(text.size());
        REQUIRE(tool.call(q, r) == 0);
        text.append(r.text, r.length);
    } while (text.size() < r.total);
    return nlohmann::json::parse(text);
}

}  // namespace rocemu::test
