// SPDX-License-Identifier: BSD-3-Clause
// Every RC connection that was recorded between two Linux hosts, replayed with our QP in the place of each host in
// turn. What is compared and which differences are allowed: replay_side.h.
#include <catch2/catch.hpp>

#include "support/pcap.h"
#include "tests/vectors/replay_side.h"

using namespace rocemu;
using namespace rocemu::replay;

namespace {

SideOptions options_of(const std::string& name, uint32_t host) {
    SideOptions o;
    const auto is = [&](const char* part) { return name.find(part) != std::string::npos; };
    o.application_writes = is("rdmacm-") || is("nvme-");
    if (host == 0) return o;
    if (is("rc-nak-rkey")) o.no_memory = true;
    if (is("rc-nak-access-read")) o.no_read_right = true;
    if (is("rc-nak-bounds")) o.bounds = 100;
    if (is("rc-nak-long-send")) {
        o.receive_bytes = 64;
        o.nak = 0x61;  // the recorded peer says 0x63: its deviation
    }
    return o;
}

}  // namespace

TEST_CASE("each recorded RC connection, with us in the place of either host",
          "[vectors][rc][9.2.3][9.7.5.1.2][9.7.7.1][9.9.3][case1][case8]") {
    size_t conversations = 0;
    uint64_t requests = 0, responses = 0, completions = 0, invalidates = 0;
    for (const auto& path : test::pcap_files(VECTORS_DIR)) {
        const std::string name = std::filesystem::relative(path, VECTORS_DIR).string();
        for (const Conversation& c : read_conversations(VECTORS_DIR, name)) {
            ++conversations;
            for (uint32_t host = 0; host < 2; ++host) {
                Side side(c, host, options_of(name, host));
                for (const std::string& difference : side.run()) {
                    INFO(name << ", we are host " << host << ": " << difference);
                    CHECK(false);
                }
                requests += side.compared_requests;
                responses += side.compared_responses;
                completions += side.completions;
                invalidates += side.refused_invalidate;
            }
        }
    }
    WARN(conversations << " connections, " << requests << " requests, " << responses << " responses, " << completions
                       << " completions compared, " << invalidates << " ended by an invalidate that we refuse");
    CHECK(conversations >= 60);
    CHECK(requests > 900);
    CHECK(responses > 1000);
    CHECK(completions > 500);
}
