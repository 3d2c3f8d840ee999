// SPDX-License-Identifier: BSD-3-Clause
// See transmitter.h.
#include "engine/transmitter.h"

#include <algorithm>
#include <cstring>

#include "engine/qp_record.h"
#include "wire/icrc.h"
#include "wire/raw_frame.h"

namespace rocemu::engine {

namespace {

wire::ExtHeaders ext_of(const transport::TxPacket& p, uint32_t qpn) {
    wire::ExtHeaders e;
    e.xrceth.srqn = p.srqn;
    e.deth = {p.qkey, qpn};
    e.reth = {p.remote_addr, p.rkey, p.dma_len};
    e.aeth = {p.syndrome, p.msn};
    // The application's immediate is four raw bytes in network order; ImmDt is a number.
    e.immdt.data = __builtin_bswap32(p.imm_data);
    e.ieth.rkey = p.imm_data;
    e.atomic_eth = {p.remote_addr, p.rkey, p.swap, p.compare_add};
    e.atomic_ack_eth.original = p.compare_add;
    return e;
}

// The ICRC behind everything else.
void put_icrc(TxJob::Build& b, uint32_t bytes, uint32_t icrc) {
    wire::store_icrc(b.frame.data + bytes, icrc);
    b.frame.length = bytes + static_cast<uint32_t>(wire::kIcrcSize);
    b.finished = true;
}

// IEEE 802.3: what is too short for Ethernet is filled up.
void close_raw(TxJob::Build& b) {
    b.frame.length = std::max(b.payload, static_cast<uint32_t>(wire::kMinFrame));
    std::memset(b.frame.data + b.payload, 0, b.frame.length - b.payload);
    b.finished = true;
}

// Pad bytes and ICRC: the payload is there, nothing is summed yet.
void close(TxJob::Build& b) {
    if (b.raw) return close_raw(b);
    uint32_t bytes = b.header + b.payload;
    for (uint8_t pad = wire::pad_count_of(b.payload); pad != 0; --pad) b.frame.data[bytes++] = std::byte{0};
    put_icrc(b, bytes, wire::icrc_of_packet({b.frame.data + b.l3, bytes - b.l3}, b.network));
}

// The application may change its slot meanwhile: what is summed is what is sent.
void copy_and_close(TxJob::Build& b, const std::byte* from) {
    if (b.raw || b.header + b.payload < wire::kShortPacket) {
        std::memcpy(b.frame.data + b.header, from, b.payload);
        return close(b);
    }
    uint32_t state = wire::icrc_headers_and_copy({b.frame.data + b.l3, size_t{b.header} - b.l3}, b.network,
                                                 b.frame.data + b.header, {from, b.payload});
    const uint8_t pad = wire::pad_count_of(b.payload);
    std::byte* end = b.frame.data + b.header + b.payload;
    if (pad != 0) {
        std::memset(end, 0, pad);
        state = wire::crc32_update(state, end, pad);
    }
    put_icrc(b, b.header + b.payload + pad, wire::icrc_finish(state));
}

}  // namespace

Transmitter::Transmitter(payload::PayloadMover& mover, const memory::KeyTable& keys)
    : mover_(mover), keys_(keys), batch_(std::make_unique<transport::TxBatch>()) {
    for (uint32_t i = 0; i < kJobs; ++i) {
        jobs_.push_back(std::make_unique_for_overwrite<TxJob>());
        jobs_.back()->next = free_;
        free_ = jobs_.back().get();
        ++free_count_;
    }
}

Transmitter::~Transmitter() {
    for (auto& job : jobs_)
        for (uint32_t i = 0; job->record != nullptr && i < job->builds_used; ++i)
            job->device->cache.give_back(job->builds[i].frame);
}

bool Transmitter::ready(QpRecord& record) {
    const uint32_t out = record.session->gathers;
    return out < kGathersPerSession && free_count_ > (out == 0 ? 0 : kReservedJobs) &&
           record.device->tx_room(transport::kTxBatchPackets) &&
           record.device->cache.reserve(transport::kTxBatchPackets);
}

const wire::HeaderTemplate* Transmitter::headers_of(const QpRecord& record, const transport::TxPacket& packet) {
    if (record.connected()) return &record.headers;
    const AddressRecord* address = record.session->addresses.find(packet.ah);
    return address == nullptr ? nullptr : &address->headers;
}

void Transmitter::build_headers(TxJob::Build& b, QpRecord& record, const transport::TxPacket& packet,
                                const wire::HeaderTemplate& headers) {
    b.network = headers.network();
    b.l3 = static_cast<uint16_t>(headers.l3_offset());
    const bool bare = wire::opcode_info(packet.opcode).extensions == 0;
    const bool alike = bare && alike_ != nullptr && alike_->opcode == packet.opcode &&
                       alike_->payload_len == packet.payload_len && alike_->solicited == packet.solicited;
    if (!alike) {
        wire::Bth bth;
        bth.opcode = packet.opcode;
        bth.solicited = packet.solicited;
        bth.dest_qp = record.connected() ? record.qp.attr().dest_qpn : packet.dest_qpn;
        bth.ack_req = packet.ack_req;
        bth.psn = packet.psn.value();
        static constexpr wire::ExtHeaders kNone{};
        if (!bare || !record.connected()) {
            b.header = static_cast<uint16_t>(headers.build(b.frame.data, bth,
                                                           bare ? kNone : ext_of(packet, record.setup.config.qpn),
                                                           packet.payload_len, record.ip_id++));
            return;
        }
        alike_ = &packet;
        series_ = {headers, bth, packet.payload_len};
    }
    series_.write(b.frame.data, packet.psn.value(), packet.ack_req, record.ip_id++);
    b.header = static_cast<uint16_t>(series_.size());
}

void Transmitter::prepare(TxJob& job, const transport::TxPacket& packet) {
    QpRecord& record = *job.record;
    TxJob::Build& b = job.builds[job.builds_used++];
    b.raw = record.raw();
    const wire::HeaderTemplate* headers = b.raw ? nullptr : headers_of(record, packet);
    b.dropped = !b.raw && headers == nullptr;
    b.finished = b.dropped;
    b.frame = record.device->cache.take();
    b.payload = packet.payload_len;
    b.gather_tag = packet.gather_tag;
    b.header = b.l3 = 0;
    if (headers != nullptr) build_headers(b, record, packet, *headers);
    if (b.dropped) record.device->counters.add(stats::Counter::tx_no_neighbour);
}

void Transmitter::fill(TxJob& job, uint32_t build, const transport::TxPacket& packet) {
    TxJob::Build& b = job.builds[build];
    if (b.dropped) return;
    if (packet.payload_len == 0) {
        close(b);
    } else if (packet.mapped != nullptr) {
        copy_and_close(b, packet.mapped);
        (packet.captured ? captured_bytes_ : mapped_bytes_) += packet.payload_len;
    } else if (!(packet.seg_count == 1 && read_and_close(b, batch_->segments.items[packet.seg_first]))) {
        std::byte* local = b.frame.data + b.header;
        for (uint32_t s = 0; s < packet.seg_count; ++s) {
            const auto& segment = batch_->segments.items[packet.seg_first + s];
            if (segment.length == 0) continue;
            job.pieces[job.pieces_used] = {local, segment.va, segment.length, segment.key};
            job.sources[job.pieces_used] = {segment.space, segment.region};
            job.owner[job.pieces_used++] = static_cast<uint8_t>(build);
            local += segment.length;
        }
    }
}

// Memory that the daemon has mapped too, in one pass. (It may change meanwhile, as what is captured may.)
bool Transmitter::read_and_close(TxJob::Build& b, const memory::Segment& segment) {
    if (segment.key == 0) return false;
    const payload::Piece piece{b.frame.data + b.header, segment.va, segment.length, segment.key};
    return mover_.read(segment.space, piece, [](void* build, const std::byte* from) {
        copy_and_close(*static_cast<TxJob::Build*>(build), from);
    }, &b);
}

void Transmitter::count_payload(const QpRecord& record) {
    if (mapped_bytes_ != 0) record.device->counters.add(stats::Counter::payload_mapped_bytes, mapped_bytes_);
    if (captured_bytes_ != 0) {
        record.device->counters.add(stats::Counter::payload_captured_bytes, captured_bytes_);
        if (auto* stats = record.session->setup.space.stats)
            stats->captured_bytes.fetch_add(captured_bytes_, std::memory_order_relaxed);
    }
    mapped_bytes_ = captured_bytes_ = 0;
}

Transmitter::Outcome Transmitter::run(QpRecord& record, uint32_t budget_bytes, Instant now) {
    Outcome outcome;
    batch_->clear();
    // A rate limit is for requests: what the peer waits for is not held back.
    const bool held = record.pace.holds(now);
    outcome.more = record.qp.poll_transmit(now, record.pace.budget(now, budget_bytes), *batch_, !held);
    record.pace.due = held ? record.pace.ready() : kNever;
    outcome.packets = batch_->count;
    if (batch_->count == 0) return outcome;
    TxJob& job = *free_;
    free_ = job.next;
    --free_count_;
    job.record = &record;
    job.device = record.device;
    job.builds_used = job.pieces_used = job.run_first = job.run_end = 0;
    // First the headers of all of them, then the payload: what was written in small parts is in the cache then, and the
    // ICRC reads it in large ones.
    alike_ = nullptr;
    for (uint32_t i = 0; i < batch_->count; ++i) prepare(job, batch_->packets[i]);
    for (uint32_t i = 0; i < batch_->count; ++i) fill(job, i, batch_->packets[i]);
    count_payload(record);
    if (record.pace.limited()) pace(job, now);
    record.gathering = true;
    ++record.session->gathers;
    const uint64_t failed = failed_;
    advance(job, false, now);
    outcome.more |= failed_ != failed;  // already: there may be a NAK to send, or packets that have not left
    return outcome;
}

// What waits for it is found at the next turn: `more` may mean responses, which do not.
void Transmitter::pace(const TxJob& job, Instant now) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < batch_->count; ++i)
        if (wire::opcode_info(batch_->packets[i].opcode).is_request())
            bytes += job.builds[i].header + job.builds[i].payload + wire::kIcrcSize;
    job.record->pace.spend(bytes, now);
}

bool Transmitter::start_run(TxJob& job, bool late, Instant now, payload::Result& result) {
    const memory::SpaceId space = job.sources[job.run_first].space;
    job.run_end = job.run_first + 1;
    while (job.run_end < job.pieces_used && job.sources[job.run_end].space == space) ++job.run_end;
    // IBTA 10.6.3: nothing reaches a region after its deregistration has ended.
    for (uint32_t i = job.run_first; late && i < job.run_end; ++i) {
        const payload::Piece& piece = job.pieces[i];
        if (keys_.holds({space, piece.length, piece.va, piece.key, job.sources[i].region})) continue;
        result.failed_piece = i - job.run_first;
        result.outcome = payload::Outcome::Fault;
        return true;
    }
    const std::span<const payload::Piece> pieces{job.pieces.data() + job.run_first, job.run_end - job.run_first};
    const auto outcome =
        mover_.copy(space, payload::Direction::FromSpace, pieces, reinterpret_cast<uintptr_t>(&job), now, result);
    result.outcome = outcome;
    return outcome != payload::Outcome::Pending;
}

void Transmitter::advance(TxJob& job, bool late, Instant now) {
    while (job.run_first < job.pieces_used) {
        payload::Result result{};
        job.record->reads_memory = !start_run(job, late, now, result);
        if (job.record->reads_memory) return;
        if (result.outcome != payload::Outcome::Done) {
            const uint32_t piece = std::min(job.run_first + result.failed_piece, job.run_end - 1);
            finish(job, job.owner[piece], now);
            return;
        }
        job.run_first = job.run_end;
    }
    finish(job, job.builds_used, now);
}

void Transmitter::finish(TxJob& job, uint32_t good, Instant now) {
    job.good = job.record->dying ? 0 : good;
    if (job.device->tx_room(job.good)) return send(job, now);
    job.next = nullptr;
    (stalled_head_ == nullptr ? stalled_head_ : stalled_tail_->next) = &job;
    stalled_tail_ = &job;
}

// A QP has one batch under way, so its packets keep their order whichever goes first.
QpRecord* Transmitter::send_stalled(Instant now) {
    TxJob* before = nullptr;
    for (TxJob* job = stalled_head_; job != nullptr; before = job, job = job->next) {
        QpRecord* record = job->record;
        if (record->dying) job->good = 0;
        if (!job->device->tx_room(job->good)) continue;
        (before == nullptr ? stalled_head_ : before->next) = job->next;
        if (stalled_tail_ == job) stalled_tail_ = before;
        send(*job, now);
        return record;
    }
    return nullptr;
}

void Transmitter::send(TxJob& job, Instant now) {
    QpRecord& record = *job.record;
    uint64_t packets = 0, bytes = 0, raw_frames = 0;
    for (uint32_t i = 0; i < job.good; ++i) {
        TxJob::Build& b = job.builds[i];
        if (b.dropped) {
            job.device->cache.give_back(b.frame);
            continue;
        }
        if (!b.finished) close(b);
        if (b.raw) {
            ++raw_frames;
            job.device->send_raw(b.frame);
            continue;
        }
        ++packets;
        bytes += b.frame.length;
        job.device->send(b.frame);
    }
    job.device->counters.add(stats::Counter::tx_packets, packets);
    job.device->counters.add(stats::Counter::tx_bytes, bytes);
    job.device->counters.add(stats::Counter::tx_raw_frames, raw_frames);
    for (uint32_t i = job.good; i < job.builds_used; ++i) job.device->cache.give_back(job.builds[i].frame);
    const bool failed = job.good < job.builds_used && !record.dying;
    const uint64_t tag = failed ? job.builds[job.good].gather_tag : 0;
    record.gathering = false;
    --record.session->gathers;
    job.record = nullptr;
    job.next = free_;
    free_ = &job;
    ++free_count_;
    failed_ += failed;
    if (failed)
        record.qp.handle_gather_failed(tag, now);
    else if (!record.dying)
        record.qp.handle_transmitted();
}

QpRecord& Transmitter::handle_result(const payload::Result& result, Instant now) {
    TxJob& job = *reinterpret_cast<TxJob*>(result.cookie);
    QpRecord& record = *job.record;
    record.reads_memory = false;
    if (result.outcome != payload::Outcome::Done) {
        const uint32_t piece = std::min(job.run_first + result.failed_piece, job.run_end - 1);
        finish(job, job.owner[piece], now);
    } else {
        job.run_first = job.run_end;
        advance(job, true, now);
    }
    return record;
}

}  // namespace rocemu::engine
