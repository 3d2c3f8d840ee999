// SPDX-License-Identifier: BSD-3-Clause
// Transmitter: turns one QP's poll_transmit batch into frames: headers from the QP's template, payload copied or
// gathered straight into the frames (one gather for the whole batch where it lies in one address space), pad, ICRC.
// A gather that does not end at once keeps its job; until then the QP is not polled again, so packets leave in order.
// A session may have few gathers out, and the last jobs are kept for sessions that have none: a process that does not
// answer holds up itself only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "engine/port.h"
#include "payload/mover.h"
#include "transport/io.h"
#include "wire/build.h"
#include "wire/header_series.h"

namespace rocemu::engine {

struct Device;
struct QpRecord;

struct TxJob {
    struct Build {
        Frame frame;
        uint16_t header;   // bytes up to the payload
        uint16_t l3;       // offset of layer 3
        uint32_t payload;  // bytes without pad
        wire::NetworkType network;
        bool raw;      // a whole frame: no headers of ours, no ICRC
        bool dropped;  // its address handle is gone
        uint64_t gather_tag;
        bool finished;  // pad and ICRC are there (payload was mapped)
    };

    QpRecord* record = nullptr;
    Device* device = nullptr;  // the record's
    TxJob* next = nullptr;     // free, or stalled
    uint32_t good = 0;         // stalled: builds to send
    uint32_t builds_used = 0;
    uint32_t pieces_used = 0;
    uint32_t run_first = 0, run_end = 0;  // pieces of the gather that is out
    // Not initialised: jobs that are never used cost no memory.
    std::array<Build, transport::kTxBatchPackets> builds;
    std::array<payload::Piece, transport::kBatchSegments> pieces;
    struct Source {
        memory::SpaceId space;
        uint32_t region;  // in which a piece lies
    };
    std::array<Source, transport::kBatchSegments> sources;
    std::array<uint8_t, transport::kBatchSegments> owner;  // build a piece belongs to
};

class Transmitter {
  public:
    static constexpr uint32_t kJobs = 256;
    static constexpr uint32_t kReservedJobs = 32;  // for sessions with nothing out
    static constexpr uint32_t kGathersPerSession = 2;

    Transmitter(payload::PayloadMover& mover, const memory::KeyTable& keys);
    ~Transmitter();

    // A batch may be started: a job is free, the device can take a batch and has frames for it.
    [[nodiscard]] bool ready(QpRecord& record);

    struct Outcome {
        uint32_t packets = 0;
        bool more = false;  // the QP has more to send than the budget allowed
    };
    // Precondition: ready(record), the QP has a route and no gather out.
    Outcome run(QpRecord& record, uint32_t budget_bytes, Instant now);
    // Gathers that ended while their device was backed up: sends the oldest that fits now, and returns its QP; nullptr:
    // none does.
    QpRecord* send_stalled(Instant now);
    [[nodiscard]] bool idle() const { return stalled_head_ == nullptr; }
    // Returns the QP whose gather ended or went on; its `gathering` tells which.
    QpRecord& handle_result(const payload::Result& result, Instant now);

  private:
    // The headers a packet gets; nullptr: the address handle it names is gone.
    static const wire::HeaderTemplate* headers_of(const QpRecord& record, const transport::TxPacket& packet);
    // A frame and its headers.
    void prepare(TxJob& job, const transport::TxPacket& packet);
    void build_headers(TxJob::Build& b, QpRecord& record, const transport::TxPacket& packet,
                       const wire::HeaderTemplate& headers);
    // Its payload, or where to gather it from.
    void fill(TxJob& job, uint32_t build, const transport::TxPacket& packet);
    bool read_and_close(TxJob::Build& b, const memory::Segment& segment);
    void count_payload(const QpRecord& record);
    // Charges the batch to the QP's rate limit; more of it may have to wait.
    void pace(const TxJob& job, Instant now);
    // Gathers until the end (then sends) or until one is out. `late`: the pieces were resolved in an earlier turn; memory
    // that was deregistered since is not read any more.
    void advance(TxJob& job, bool late, Instant now);
    bool start_run(TxJob& job, bool late, Instant now, payload::Result& result);
    // Sends builds [0, good), now or when the device has room; the others are dropped and, if there are any, the core
    // is told.
    void finish(TxJob& job, uint32_t good, Instant now);
    void send(TxJob& job, Instant now);

    payload::PayloadMover& mover_;
    const memory::KeyTable& keys_;
    std::vector<std::unique_ptr<TxJob>> jobs_;
    TxJob* free_ = nullptr;
    uint32_t free_count_ = 0;
    TxJob* stalled_head_ = nullptr;
    TxJob* stalled_tail_ = nullptr;
    uint64_t failed_ = 0;  // gathers
    std::unique_ptr<transport::TxBatch> batch_;
    // Of the packets of the batch that are alike: their headers, and one of them (nullptr: there was none).
    wire::HeaderSeries series_;
    const transport::TxPacket* alike_ = nullptr;
    uint64_t mapped_bytes_ = 0, captured_bytes_ = 0;  // of the batch
};

}  // namespace rocemu::engine
