// SPDX-License-Identifier: BSD-3-Clause
// Side: our QP in the place of one host of a recorded conversation. It posts what the host posted when the host did,
// hears what the host heard, and compares what it sends with what the host sent, in everything the specification fixes.
//
// Differences that are allowed, each with its reason (docs/conformance.md lists them):
// DIFFERENCE: AckReq: when to ask is the requester's choice (IBTA volume 1, 9.7.3.2); ACKs may be coalesced (9.7.5.1.2)
// DIFFERENCE: the credits of an ACK: we promise the receives that are posted (IBTA 9.7.7.2), the peer says nothing (31)
// DIFFERENCE: MigReq, IP identification, UDP source port: not fixed by the specification; MigReq is 0 on both sides
// DIFFERENCE: the compare data of a FETCH_ADD: without meaning (IBTA volume 1, 9.3.4); the peer leaves something there
// DIFFERENCE: 0x61 (invalid request) where the peer answers 0x63 to a SEND longer than the receive
// DIFFERENCE: with loss, how often and in what order packets are sent again, and where a READ is continued
// DIFFERENCE: with loss, the MSN of an answer to a repetition: the peer sends its newest, we the one of the request
// DIFFERENCE: a SEND with invalidate of a key that is neither a bound window nor fast-registered is refused with 0x62
//
// UC and datagrams have no answers to compare: what is received must be, and nothing may be said.
#pragma once

#include <memory>

#include "tests/sim/endpoint.h"
#include "tests/vectors/replay_conversation.h"

namespace rocemu::replay {

struct SideOptions {
    uint32_t receive_bytes = 16384;
    bool no_memory = false;      // the peer's rkeys do not exist
    bool no_read_right = false;  // the QP does not allow READs
    uint64_t bounds = 0;         // regions end so many bytes behind the start of the first request; 0: where they must
    bool application_writes = false;  // memory changes between READs
    uint8_t nak = 0;                  // our last response is this NAK whatever was recorded
};

class Side {
  public:
    Side(const Conversation& c, uint32_t host, const SideOptions& options = {});

    // Replays the conversation. Returns what differs, one line each.
    std::vector<std::string> run();

    uint64_t compared_requests = 0, compared_responses = 0, completions = 0;
    // We refused a SEND with invalidate (IBTA 9.4.1.1.3: what a peer may invalidate is a bound window or a
    // fast-registered region; without those it is refused): nothing behind it is compared.
    bool refused_invalidate = false;

  private:
    void offer_memory();
    void offer_receives(const Recorded& next);
    void write_for_read(const Recorded& request);
    void post_until(uint64_t offset);
    void post(const PostedMessage& m);
    void hear(const Recorded& r);
    void collect();
    void compare_request(const Recorded& r);
    void compare_responses();
    void compare_responses_with_loss();
    void compare_completions();
    void compare_receives();
    void same(const wire::PacketView& ours, const wire::PacketView& theirs);
    void differ(const std::string& what, uint32_t psn);

    const Conversation& c_;
    uint32_t host_;
    SideOptions options_;
    std::unique_ptr<sim::Endpoint> e_;
    sim::Link out_{1};
    Instant now_{1000};
    uint64_t next_buffer_;
    size_t posted_ = 0, receives_ = 0;
    std::function<uint64_t(uint32_t rkey, uint64_t va)> regions_;  // the peer's address as ours
    std::map<uint32_t, memory::Region> offered_;                   // by rkey
    std::vector<Sge> buffers_;                                     // of each message posted
    std::map<uint32_t, Recorded> requests_;                        // ours, by PSN, first transmission
    std::vector<Recorded> responses_;                              // ours
    std::vector<std::string> differences_;
};

}  // namespace rocemu::replay
