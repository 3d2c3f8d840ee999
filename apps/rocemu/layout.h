// SPDX-License-Identifier: BSD-3-Clause
// A JSON document laid out for reading: nested objects indented, lists of flat objects as tables. It knows nothing of
// what the document says, so that the daemon can add to it.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace rocemu::cli {

std::string laid_out(const nlohmann::ordered_json& json);

}  // namespace rocemu::cli
