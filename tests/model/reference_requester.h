// SPDX-License-Identifier: BSD-3-Clause
// ReferenceRequester: what a requester is, with nothing clever: the packets of all messages in one long list, a cursor,
// and going back to the oldest unanswered one whenever something is missing. Written from IBTA volume
// 1, 9.7.2, 9.7.3, 9.7.5.
#pragma once

#include <functional>
#include <vector>

#include "tests/model/reference_memory.h"
#include "wire/build.h"
#include "wire/packet_view.h"

namespace rocemu::model {

// A request packet, ready to be framed.
struct Ask {
    wire::Opcode opcode{};
    uint32_t psn = 0;
    bool ack_req = false, solicited = false;
    wire::ExtHeaders ext{};
    std::vector<std::byte> payload;
};

class ReferenceRequester {
  public:
    ReferenceRequester(const Settings& settings, ReferenceMemory& memory, uint32_t first_psn);

    std::vector<Ask> asks;  // to be sent, in order
    bool failed = false;    // the QP must go to ERR
    bool draining = false;  // SQD: begins no message
    std::function<void(const transport::Completion&)> on_send;

    void post(const SendRequest& request);
    void handle(const wire::PacketView& p, Instant now);
    void timers(Instant now);
    void poll(Instant now);  // fills `asks`
    void flush();            // the QP is in ERR
    [[nodiscard]] Instant deadline() const;

  private:
    struct Packet {
        size_t message = 0;
        uint64_t offset = 0;  // its PSN, counted from the first
        uint64_t span = 1;    // PSNs it takes: a READ as many as its answer
        uint64_t got = 0;     // READ: answers that have come
        bool first = false, last = false;
    };
    struct Message {
        SendRequest request;
        size_t packets_end = 0;  // number of its last packet, plus 1
        bool wants_data = false, read = false;
        WcStatus local_error = WcStatus::Success;
    };
    [[nodiscard]] uint64_t oldest() const;  // PSN offset of what is waited for
    [[nodiscard]] uint64_t sent_end() const;
    [[nodiscard]] bool may_send(const Packet& p) const;
    bool build(const Packet& p, Ask& a);
    bool reach(uint64_t offset);  // everything below is acknowledged; false: an answer with data is missing
    void progress(Instant now);
    void complete_done();
    void go_back(bool pay);
    void fail(WcStatus status);
    void on_data(const wire::PacketView& p, uint64_t offset, Instant now);

    const Settings& settings_;
    ReferenceMemory& memory_;
    uint32_t mtu_, first_psn_;
    std::vector<Message> messages_;
    std::vector<Packet> packets_;
    size_t una_ = 0, next_ = 0, sent_ = 0;  // packets: oldest not answered, next to send, first never sent
    size_t completed_ = 0;                  // messages
    uint32_t retries_, rnr_retries_;
    bool went_back_ = false;  // since the last progress
    Instant deadline_ = kNever, rnr_until_{0};
    bool rnr_waiting_ = false;
};

}  // namespace rocemu::model
