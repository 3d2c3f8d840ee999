// SPDX-License-Identifier: BSD-3-Clause
// Schedule: one run of the model check, all of it: settings of the pair, messages with their time and their defects,
// faults of single frames, events. A schedule is data: it is made from a seed, shrunk, printed as text and read back,
// and running it twice gives the same run.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/verbs_types.h"

namespace rocemu::model {

// What is wrong with a message, on purpose.
enum class Defect : uint32_t {
    None,
    BadRkey,         // no such key
    ForeignRkey,     // a key of another protection domain
    OutOfBounds,     // the range ends behind the region
    NoRemoteRight,   // the region does not allow the operation
    ZeroWithBadKey,  // length 0: the key must not be looked at
    BadLkey,
    ShortReceive,   // the receive is smaller than the SEND
    BadReceiveKey,  // the receive's lkey does not exist
    Unaligned,      // atomic at an odd address
    RemoteFault,    // the responder's memory fails when it is touched
    LocalFault,     // the requester's memory fails when it is touched
};
inline constexpr uint32_t kDefects = 12;

struct Post {
    uint32_t side = 0;  // 0: from A to B, 1: from B to A
    uint32_t op = 0;    // WrOpcode
    uint32_t bytes = 0;
    uint32_t pieces = 1;  // SGEs
    uint32_t flags = 0;   // send_flags
    uint32_t mapped = 0;  // payload inline instead of SGEs
    uint64_t at = 0;      // ns
    uint64_t late = 0;    // its receive is posted this much later
    uint32_t defect = 0;
    uint32_t local_key = 0;   // 1: uses the key that a Deregister event removes
    uint32_t remote_key = 0;  // likewise
};

enum class FaultKind : uint32_t { Drop, Duplicate, Corrupt, Delay };
struct Fault {
    uint32_t side = 0;   // who sent the frame
    uint32_t frame = 0;  // how many it had sent before
    uint32_t kind = 0;
    uint64_t delay = 0;  // ns; of the frame, or of its duplicate
};

enum class EventKind : uint32_t { Deregister, Error, Drain };
struct Event {
    uint32_t side = 0;
    uint32_t kind = 0;
    uint64_t at = 0;
    uint64_t lasts = 0;  // Drain: SQD for so long
};

struct Settings {
    uint32_t reference = 0;  // 0: both sides are the core; 1: A is the reference; 2: B is the reference
    uint32_t mtu = 1;        // enum ibv_mtu
    uint32_t psn_a = 0, psn_b = 0;
    uint32_t window_packets = 128;
    uint32_t send_wqes = 64, recv_wqes = 64;
    uint32_t dma_window = 256;
    uint32_t rd_atomic = 16;
    uint32_t retry_cnt = 7, rnr_retry = 7, rnr_timer = 1, timeout = 10;
    uint32_t slow = 0;  // ns: the longest placement
    uint32_t turn_bytes = 65536;
    uint32_t sq_sig_all = 0;
    uint32_t reorder = 0;  // packets that come early and are kept
    // The reference requester's way.
    uint32_t ref_window = 4;      // packets
    uint32_t ref_read_whole = 0;  // asks for a whole READ again instead of the rest
    uint32_t ref_ack_all = 0;     // sets AckReq on each packet; as responder it acknowledges each
};

struct Schedule {
    uint64_t seed = 0;
    Settings settings;
    std::vector<Post> posts;
    std::vector<Fault> faults;
    std::vector<Event> events;
};

[[nodiscard]] Schedule make_schedule(uint64_t seed);
// Text: one line an item, name=value pairs. read_schedule throws std::runtime_error on what it does not know.
[[nodiscard]] std::string to_text(const Schedule& s);
[[nodiscard]] Schedule read_schedule(std::istream& in);

// Anything for which fails(s) stays true, smaller; at most `budget` trials.
template <typename Fails>
Schedule shrink(Schedule s, Fails fails, int budget = 2000) {
    const auto attempt = [&](Schedule candidate) {
        if (budget-- <= 0 || !fails(candidate)) return false;
        s = std::move(candidate);
        return true;
    };
    const auto thin = [&](auto member) {
        for (size_t chunk = (s.*member).size(); chunk > 0; chunk /= 2)
            for (size_t at = 0; at < (s.*member).size();) {
                Schedule c = s;
                auto& list = c.*member;
                const size_t end = std::min(at + chunk, list.size());
                list.erase(list.begin() + static_cast<long>(at), list.begin() + static_cast<long>(end));
                if (!attempt(std::move(c))) at += chunk;
            }
    };
    for (int round = 0; round < 2; ++round) {
        thin(&Schedule::posts);
        thin(&Schedule::faults);
        thin(&Schedule::events);
    }
    for (size_t i = 0; i < s.posts.size(); ++i) {
        const auto simpler = [&](auto member, auto value) {
            if (s.posts[i].*member == value) return;
            Schedule c = s;
            c.posts[i].*member = value;
            attempt(std::move(c));
        };
        simpler(&Post::pieces, 1u);
        simpler(&Post::flags, send_flags::kSignaled);
        simpler(&Post::at, uint64_t{0});
        simpler(&Post::late, uint64_t{0});
        simpler(&Post::local_key, 0u);
        simpler(&Post::remote_key, 0u);
        simpler(&Post::mapped, 0u);
        if (s.posts[i].defect == 0 && s.posts[i].op != 5 && s.posts[i].op != 6) {
            simpler(&Post::bytes, 1u);
            if (s.posts[i].bytes > 1) simpler(&Post::bytes, (128u << s.settings.mtu) + 1);
        }
    }
    const auto setting = [&](auto member, auto value) {
        if (s.settings.*member == value) return;
        Schedule c = s;
        c.settings.*member = value;
        attempt(std::move(c));
    };
    const Settings plain;
    for (auto m : {&Settings::slow, &Settings::window_packets, &Settings::send_wqes, &Settings::recv_wqes,
                   &Settings::dma_window, &Settings::rd_atomic, &Settings::turn_bytes, &Settings::retry_cnt,
                   &Settings::rnr_retry, &Settings::mtu, &Settings::psn_a, &Settings::psn_b, &Settings::reorder,
                   &Settings::ref_window, &Settings::ref_read_whole, &Settings::ref_ack_all})
        setting(m, plain.*m);
    return s;
}

}  // namespace rocemu::model
