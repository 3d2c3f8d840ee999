// SPDX-License-Identifier: BSD-3-Clause
// DeferredStage: the daemon's side of abi/receive_stage.h for one space: puts payload into the stage, and takes back
// ("settles") what the provider has not begun when the space is about to be reached by another way.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "abi/receive_stage.h"
#include "payload/mover.h"

namespace rocemu::payload {

class DeferredStage {
  public:
    DeferredStage(abi::ReceiveStage& stage, SpaceStats* stats, stats::CounterBlock& counters)
        : stage_(stage), stats_(stats), counters_(counters) {}

    // All pieces, in order, or none: no room.
    bool append(std::span<const Piece> pieces, std::span<const Origin> origins);

    enum class Settled : uint8_t {
        Done,     // nothing is pending
        Busy,     // the provider is in the middle of a copy: try again
        Refused,  // process_vm is: what was pending still is
    };
    // Places what is pending by process_vm.
    Settled settle(int pid);
    // Frees what is done.
    void retire();
    [[nodiscard]] bool empty() const { return tail_ == head_; }
    // Work whose memory was not there, each once. False: no more.
    bool take_fault(Origin& origin);

  private:
    static constexpr uint32_t kMask = abi::kDeferredRecords - 1;
    static constexpr uint32_t kMaxRecordBytes = 16u << 10;  // a copy that cannot be waited for for long
    struct Record {
        uint64_t va = 0;
        uint32_t length = 0;
        uint32_t offset = 0;
        uint64_t end = 0;  // stage position behind it
        Origin origin;
    };

    [[nodiscard]] std::atomic<uint32_t>& state(uint32_t number) { return stage_.records[number & kMask].state; }
    bool reserve(uint32_t length, uint32_t& offset);
    void write_record(uint32_t number);
    // Changes Pending of `number` to `to`; false: it was something else.
    bool take(uint32_t number, abi::DeferredState to);
    void give_back(std::span<const uint32_t> numbers);
    bool wait_for_provider();
    Settled place(int pid, std::span<const uint32_t> numbers);
    void note_fault(const Origin& origin);

    abi::ReceiveStage& stage_;
    SpaceStats* stats_;
    stats::CounterBlock& counters_;
    // Free-running: records [tail_, head_) are in the stage.
    uint32_t tail_ = 0, head_ = 0;
    uint64_t bytes_tail_ = 0, bytes_head_ = 0;
    std::array<Record, abi::kDeferredRecords> records_{};
    static constexpr uint32_t kFaults = 64;  // more at a time are lost: their QPs find out by the provider
    std::array<Origin, kFaults> faults_{};
    uint32_t fault_count_ = 0;
};

}  // namespace rocemu::payload
