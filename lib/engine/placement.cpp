// SPDX-License-Identifier: BSD-3-Clause
// See placement.h.
#include "engine/placement.h"

#include <algorithm>

#include "abi/null_region.h"
#include "engine/qp_record.h"

namespace rocemu::engine {

using transport::DmaKind;
using transport::DmaStatus;

namespace {

// A store of up to 8 bytes is one store: nothing to order.
constexpr uint32_t kOneStore = 8;

// False: several. `space`: which; kNullSpace if nothing is to be written anywhere.
bool in_one_space(const transport::DmaBatch& batch, const transport::DmaRequest& r, memory::SpaceId& space) {
    space = abi::kNullSpace;
    for (uint32_t s = 0; s < r.seg_count; ++s) {
        const memory::SpaceId next = batch.segments.items[r.seg_first + s].space;
        if (space == abi::kNullSpace)
            space = next;
        else if (next != space && next != abi::kNullSpace)
            return false;
    }
    return true;
}

// Nothing keeps the order between two address spaces.
bool overtakes(const PlaceJob* before, memory::SpaceId space) {
    return before != nullptr && before->space != space;
}

}  // namespace

Placement::Placement(payload::PayloadMover& mover, const memory::KeyTable& keys, Completions& completions)
    : mover_(mover), keys_(keys), kept_(completions) {
    for (uint32_t i = 0; i < kJobs; ++i) {
        jobs_.push_back(std::make_unique_for_overwrite<PlaceJob>());
        release(jobs_.back().get());
    }
}

bool Placement::place(const memory::Segment& segment, const std::byte* source, bool ends_write) {
    return mover_.place(segment.space, {const_cast<std::byte*>(source), segment.va, segment.length, segment.key}, ends_write);
}

bool Placement::admits(const QpRecord& record) const {
    const uint32_t room = held_.room();
    if (record.session->frames_held < kHeldPerSession) return room >= kHeldFramesReserved;
    return record.frames_held < kHeldPerQp && room >= kHeldFrames / 2;
}

bool Placement::owes(const QpRecord& record) {
    return record.held_unpolled;
}

PlaceJob* Placement::take(const QpRecord& record) {
    const bool first = record.session->place_jobs == 0;
    if (record.jobs >= kJobsPerQp || free_count_ == 0 || (free_count_ <= kReservedJobs && !first)) return nullptr;
    PlaceJob* job = free_;
    free_ = job->next;
    --free_count_;
    job->next = nullptr;
    job->cursor = job->run_end = 0;
    job->out = job->done = false;
    job->batch.clear();
    return job;
}

void Placement::release(PlaceJob* job) {
    job->next = free_;
    free_ = job;
    ++free_count_;
}

bool Placement::run(QpRecord& record, std::span<Frame*> frames, Instant now) {
    const bool any = place(record, frames, now);
    return record.kept.head == nullptr ? any : place_kept(record, now) || any;
}

// What was missing may have come, or room: those that waited for it, until none is left that may go on.
bool Placement::place_kept(QpRecord& record, Instant now) {
    bool any = false;
    std::array<Frame, KeptFrames::kPerReplay> again;
    std::array<Frame*, KeptFrames::kPerReplay> list;
    uint32_t n = 0;
    while (record.kept.head != nullptr && kept_.replay(record, again, n, now)) {
        for (uint32_t i = 0; i < n; ++i) list[i] = &again[i];
        any |= place(record, {list.data(), n}, now);
        for (uint32_t i = 0; i < n; ++i)
            if (again[i].data != nullptr) record.device->cache.free({&again[i], 1});
    }
    return any;
}

bool Placement::place(QpRecord& record, std::span<Frame*> frames, Instant now) {
    bool any = false;
    bool more = true;  // in the core
    const bool late = owes(record);
    while (more) {
        PlaceJob* job = take(record);
        if (job == nullptr) break;
        more = record.qp.poll_dma(job->batch);
        if (job->batch.count == 0) {
            release(job);
            break;
        }
        any = true;
        job->record = &record;
        record.polled_tag = job->batch.requests[job->batch.count - 1].tag;
        (record.jobs_head == nullptr ? record.jobs_head : record.jobs_tail->next) = job;
        record.jobs_tail = job;
        ++record.jobs;
        ++record.session->place_jobs;
        advance(record, late, now);
        deliver(record, now);
    }
    record.held_unpolled = more;
    if (record.jobs_head == nullptr && !more) {
        release_held(record);  // nothing is out: nobody reads from frames any more, and the caller frees its own
        return any;
    }
    for (Frame* frame : frames) {
        held_.append(record.held, *frame);
        ++record.session->frames_held;
        ++record.frames_held;
        frame->data = nullptr;
    }
    if (!more)
        for (HeldFrame* h = record.held.head; h != nullptr; h = h->next)
            if (h->last_tag == HeldFrame::kNotYet) h->last_tag = record.polled_tag;
    return any;
}

void Placement::advance(QpRecord& record, bool late, Instant now) {
    const PlaceJob* before = nullptr;
    for (PlaceJob* job = record.jobs_head; job != nullptr; job = job->next) {
        if (!job->done && !job->out) advance(*job, before, late, now);
        if (job->done) continue;
        // IBTA 9.5: requests take effect in the order of their packets. What is out keeps it by itself, in its address
        // space; the next job waits for what is not.
        if (!job->out || job->run_end < job->batch.count) return;
        before = job;
    }
}

void Placement::advance(PlaceJob& job, const PlaceJob* before, bool late, Instant now) {
    if (job.record->dying) give_up(job);
    while (job.cursor < job.batch.count) {
        payload::Result result{};
        const Run run = start_run(job, before, late, now, result);
        job.out = run == Run::Out;
        if (run != Run::Ended) return;
        finish_run(job, result);
    }
    job.done = true;
}

// IBTA 10.6.3: nothing reaches a region after its deregistration has ended.
bool Placement::still_there(const transport::DmaBatch& batch, const transport::DmaRequest& r) const {
    for (uint32_t s = 0; s < r.seg_count; ++s) {
        const memory::Segment& segment = batch.segments.items[r.seg_first + s];
        if (segment.length != 0 && !keys_.holds(segment)) return false;
    }
    return true;
}

Placement::Run Placement::start_run(PlaceJob& job, const PlaceJob* before, bool late, Instant now,
                                    payload::Result& result) {
    const auto& batch = job.batch;
    const auto& first = batch.requests[job.cursor];
    const auto index = static_cast<uint64_t>(&first - batch.requests.data());
    const uint64_t cookie = kCookieBit | reinterpret_cast<uintptr_t>(&job);
    result.outcome = payload::Outcome::Done;
    if (late && !still_there(batch, first)) {
        job.run_end = static_cast<uint32_t>(index) + 1;
        job.piece_owner[0] = static_cast<uint8_t>(index);
        result.failed_piece = 0;
        result.outcome = payload::Outcome::Fault;
        return Run::Ended;
    }
    if (is_atomic(first.kind)) {
        job.run_end = static_cast<uint32_t>(index) + 1;
        if (first.seg_count != 1) {
            result.outcome = payload::Outcome::Fault;
            return Run::Ended;
        }
        const auto& s = batch.segments.items[first.seg_first];
        const bool swap = first.kind == DmaKind::CompareSwap;
        if (overtakes(before, s.space)) return Run::MustWait;
        job.space = s.space;
        const auto outcome = mover_.atomic(s.space, swap, s.va, first.compare_add, first.swap, cookie, now, result);
        if (outcome == payload::Outcome::Pending) return Run::Out;
        result.outcome = outcome;
        return Run::Ended;
    }
    const QpSetup& setup = job.record->setup;
    uint32_t pieces = 0;
    memory::SpaceId space = 0;
    uint32_t i = job.cursor;
    for (; i < batch.count; ++i) {
        const auto& r = batch.requests[i];
        if (r.kind != first.kind || r.deferrable != first.deferrable) break;
        // By itself: merged with a neighbour it would not be one store.
        if (r.kind == DmaKind::Store && i != job.cursor) break;
        if (late && !still_there(batch, r)) break;
        if (r.seg_count != 0) {
            memory::SpaceId mine;
            const bool one = in_one_space(batch, r, mine);
            const bool foreign = mine != space && mine != abi::kNullSpace;
            if (pieces != 0 && (foreign || pieces + r.seg_count + 1 > pieces_.size())) break;
            if (!one) {
                if (i != job.cursor) break;
                // A request is never split over spaces: MRs of several processes in one receive are refused.
                job.run_end = i + 1;
                job.piece_owner[0] = static_cast<uint8_t>(i);
                result.failed_piece = 0;
                result.outcome = payload::Outcome::Fault;
                return Run::Ended;
            }
            if (mine != abi::kNullSpace) space = mine;
        }
        const std::byte* source = r.source;
        for (uint32_t s = 0; s < r.seg_count; ++s) {
            const auto& segment = batch.segments.items[r.seg_first + s];
            if (segment.length == 0) continue;
            if (segment.space == abi::kNullSpace) {
                source += segment.length;
                continue;
            }
            job.piece_owner[pieces] = static_cast<uint8_t>(i);
            if (r.deferrable) origins_[pieces] = {setup.config.qpn, setup.slot, r.wqe_index, r.is_recv};
            pieces_[pieces++] = {const_cast<std::byte*>(source), segment.va, segment.length, segment.key};
            source += segment.length;
        }
        if (r.ends_write && r.length > kOneStore && pieces != 0 && pieces_[pieces - 1].length > kOneStore) {
            payload::Piece& body = pieces_[pieces - 1];
            body.length -= kOneStore;
            job.piece_owner[pieces] = static_cast<uint8_t>(i);
            pieces_[pieces++] = {body.local + body.length, body.va + body.length, kOneStore, body.key};
        }
    }
    job.run_end = i;
    if (pieces == 0) return Run::Ended;
    if (overtakes(before, space)) return Run::MustWait;
    job.space = space;
    // Memory of another process than the QP's (a shared receive queue, an imported region) is not its program's to fill.
    if (first.deferrable && space == setup.session &&
        mover_.defer(space, {pieces_.data(), pieces}, {origins_.data(), pieces}))
        return Run::Ended;
    const auto outcome = mover_.copy(space, payload::Direction::ToSpace, {pieces_.data(), pieces}, cookie, now, result);
    if (outcome == payload::Outcome::Pending) return Run::Out;
    result.outcome = outcome;
    return Run::Ended;
}

void Placement::give_up(PlaceJob& job) {
    while (job.cursor < job.batch.count) job.status[job.cursor++] = DmaStatus::Fault;
    job.run_end = job.batch.count;
}

void Placement::finish_run(PlaceJob& job, const payload::Result& result) {
    // Each of the others would be waited for as long as this one, and what it is made of may be in the ring already.
    if (result.outcome == payload::Outcome::GivenUp) return give_up(job);
    const bool ok = result.outcome == payload::Outcome::Done;
    uint32_t failed = job.run_end;
    if (!ok) {
        const bool place = !is_atomic(job.batch.requests[job.cursor].kind);
        failed =
            place && result.failed_piece < job.piece_owner.size() ? job.piece_owner[result.failed_piece] : job.cursor;
        if (failed < job.cursor || failed >= job.run_end) failed = job.cursor;
    }
    for (uint32_t i = job.cursor; i < failed; ++i) job.status[i] = DmaStatus::Ok;
    if (ok) job.original[job.cursor] = result.original;
    if (!ok) job.status[failed] = DmaStatus::Fault;
    // What stands behind the failed request has not been executed: it is tried by itself. (Requester and responder of
    // a QP share the order, not the fate.)
    job.cursor = ok ? job.run_end : failed + 1;
}

void Placement::deliver(QpRecord& record, Instant now) {
    uint64_t reported = 0;
    bool any = false;
    while (record.jobs_head != nullptr && record.jobs_head->done) {
        PlaceJob* job = record.jobs_head;
        record.jobs_head = job->next;
        if (record.jobs_head == nullptr) record.jobs_tail = nullptr;
        for (uint32_t i = 0; i < job->batch.count; ++i) {
            const auto& r = job->batch.requests[i];
            record.qp.handle_dma(r.tag, job->status[i], is_atomic(r.kind) ? job->original[i] : 0, now);
            reported = r.tag;
        }
        --record.jobs;
        --record.session->place_jobs;
        release(job);
        any = true;
    }
    while (any && record.held.head != nullptr && record.held.head->last_tag <= reported) {
        Frame frame = held_.pop(record.held);
        --record.session->frames_held;
        --record.frames_held;
        record.device->cache.free({&frame, 1});
    }
}

void Placement::note_given_up(const PlaceJob& job) {
    if (job.space != job.record->session->setup.id) return;
    std::erase_if(unsettled_, [&](const Unsettled& u) { return u.record == job.record; });
    unsettled_.push_back({job.record, job.space, mover_.fence(job.space)});
}

bool Placement::settled(const QpRecord& record) {
    std::erase_if(unsettled_, [&](const Unsettled& u) { return mover_.passed(u.space, u.fence); });
    return std::none_of(unsettled_.begin(), unsettled_.end(), [&](const Unsettled& u) { return u.record == &record; });
}

QpRecord& Placement::handle_result(const payload::Result& result, Instant now) {
    auto& job = *reinterpret_cast<PlaceJob*>(result.cookie & ~kCookieBit);
    QpRecord& record = *job.record;
    job.out = false;
    if (result.outcome == payload::Outcome::GivenUp) note_given_up(job);
    finish_run(job, result);
    advance(record, true, now);
    deliver(record, now);
    return record;
}

void Placement::forget(QpRecord& record) {
    release_held(record);
    kept_.forget(record);
}

void Placement::release_held(QpRecord& record) {
    record.held_unpolled = false;
    while (record.held.head != nullptr) {
        Frame frame = held_.pop(record.held);
        --record.session->frames_held;
        --record.frames_held;
        record.device->cache.free({&frame, 1});
    }
}

}  // namespace rocemu::engine
