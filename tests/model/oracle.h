// SPDX-License-Identifier: BSD-3-Clause
// Oracle: knows of every message of one direction what must become of it: its bytes, its PSNs, its MSN, the completions
// it may end with. Everything follows from the list of messages alone: PSNs are given out in order, atomics are a
// chain. Read IBTA volume 1, 9.7.1 (PSN), 9.7.7.1 (MSN), 10.8.6 (completion order), 9.9.2 and 9.9.3 (errors).
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "tests/model/party.h"
#include "tests/sim/random.h"

namespace rocemu::model {

struct Message {
    Post post;
    WrOpcode op{};
    Defect defect{};
    uint32_t bytes = 0;
    std::vector<std::byte> data;
    std::vector<Sge> local, receive;
    uint64_t remote = 0;
    uint32_t rkey = 0, imm = 0;
    uint64_t local_from = 0, local_to = 0, remote_from = 0, remote_to = 0;  // memory that belongs to it
    uint64_t first = 0, end = 0;                                            // PSNs, counted from the direction's first
    uint64_t compare_add = 0, swap = 0, before = 0, after = 0;

    [[nodiscard]] bool is_atomic() const {
        return op == WrOpcode::AtomicCmpAndSwp || op == WrOpcode::AtomicFetchAndAdd;
    }
    [[nodiscard]] bool is_read() const { return op == WrOpcode::RdmaRead; }
    [[nodiscard]] bool wants_data() const { return is_read() || is_atomic(); }
    [[nodiscard]] bool is_send() const { return op == WrOpcode::Send || op == WrOpcode::SendWithImm; }
    [[nodiscard]] bool is_write() const { return op == WrOpcode::RdmaWrite || op == WrOpcode::RdmaWriteWithImm; }
    [[nodiscard]] bool has_imm() const { return op == WrOpcode::SendWithImm || op == WrOpcode::RdmaWriteWithImm; }
    [[nodiscard]] bool takes_receive() const { return is_send() || op == WrOpcode::RdmaWriteWithImm; }
    // Certain not to succeed, if its turn comes.
    [[nodiscard]] bool must_fail() const { return defect != Defect::None && defect != Defect::ZeroWithBadKey; }
};

// What may go wrong for reasons outside a message.
struct Weather {
    bool own_error = false;     // the sender's QP may be taken to ERR by the other direction or by its application
    bool peer_error = false;    // the peer's QP may
    bool doomed_here = false;   // the sender's doomed key is removed
    bool doomed_there = false;  // the peer's
    bool retries = false;       // so many faults that retry_cnt may be used up
    bool rnr_retries = false;   // rnr_retry may be
    bool drained = false;       // SQD: not relevant for statuses
};

class Oracle {
  public:
    Oracle(const Schedule& schedule, uint32_t side, Party& from, Party& to);

    // Bytes of memory that a party needs for this schedule.
    [[nodiscard]] static uint64_t memory_needed(const Schedule& s);

    // Adds the message, fills memory, posts it. Its receive is the caller's to post, in order.
    const Message& post(const Post& p);
    [[nodiscard]] const std::vector<Sge>* next_receive();  // null: none left to post
    void post_receive();                                   // posts it

    void on_send(const transport::Completion& c);
    void on_receive(const transport::Completion& c);
    // When nothing happens any more.
    void check_end();
    [[nodiscard]] const std::string& error() const { return error_; }

    // --- facts ---
    [[nodiscard]] const std::deque<Message>& messages() const { return messages_; }
    [[nodiscard]] uint64_t sends_completed() const { return completed_; }
    [[nodiscard]] uint64_t receives_completed() const { return received_; }
    [[nodiscard]] uint64_t receives_posted() const { return receives_posted_; }
    [[nodiscard]] bool broken() const { return failed_; }
    // The message that PSN `offset` belongs to, or null.
    [[nodiscard]] const Message* at(uint64_t offset) const;
    [[nodiscard]] uint64_t end() const { return messages_.empty() ? 0 : messages_.back().end; }
    // The MSN after everything up to and with `offset`: IBTA 9.7.7.1.
    [[nodiscard]] uint32_t msn_at(uint64_t offset) const;
    // The payload of packet `offset` of a SEND or WRITE is in the receiver's memory.
    [[nodiscard]] bool placed(uint64_t offset) const;
    [[nodiscard]] uint32_t mtu() const { return mtu_; }
    [[nodiscard]] uint32_t psn_start() const { return psn_start_; }

    Weather weather;

  private:
    [[nodiscard]] std::vector<Sge> carve(uint64_t& next, uint64_t bytes, uint32_t pieces, uint32_t key);
    void scatter(Party& p, const std::vector<Sge>& sges, const std::vector<std::byte>& data);
    [[nodiscard]] static std::vector<std::byte> gather(Party& p, const std::vector<Sge>& sges);
    [[nodiscard]] static bool begins_with(Party& p, const std::vector<Sge>& sges, const std::vector<std::byte>& data);
    void place_message(Message& m);
    void apply_defect(Message& m);
    void check_success(const Message& m);
    void check_failure(const Message& m, WcStatus status);
    [[nodiscard]] std::set<WcStatus> send_failures(const Message& m) const;
    [[nodiscard]] std::set<WcStatus> receive_failures(const Message& m) const;
    void fail(const std::string& what, size_t message);
    void check_untouched(Party& p, uint64_t from, uint64_t to);

    Party& from_;
    Party& to_;
    sim::Random random_;
    uint32_t side_, mtu_, psn_start_;
    bool sig_all_;
    std::deque<Message> messages_;
    std::vector<size_t> receives_;  // message number of each receive, in order
    size_t receives_posted_ = 0, completed_ = 0, received_ = 0;
    size_t atomics_done_ = 0;
    bool failed_ = false, receive_failed_ = false;
    uint64_t counter_, from_next_, to_next_, to_end_ = 0;
    std::string error_;
};

}  // namespace rocemu::model
