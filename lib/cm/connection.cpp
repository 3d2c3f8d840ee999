// SPDX-License-Identifier: BSD-3-Clause
// What all parts of a Connection share: sending with repetition, giving up, making events.
// Read IBTA volume 1, 12.9.7.1 (timeouts and retries).
#include "cm/connection.h"

#include "cm/timing.h"

namespace rocemu::cm {

void Connection::open(const Config& config, CmId id, OwnerId owner, uint64_t local_ca_guid) {
    *this = Connection{};
    config_ = &config;
    id_ = id;
    owner_ = owner;
    local_ca_guid_ = local_ca_guid;
    max_retries_ = config.max_cm_retries;
    transaction_ = own_transaction();
    set_state(State::Closed);
}

bool Connection::occupies_remote_qp() const {
    switch (info_.state) {
        case State::ReqRcvd:
        case State::MraReqSent:
        case State::RepSent:
        case State::MraRepRcvd:
        case State::RepRcvd:
        case State::MraRepSent:
        case State::Established:
            return true;
        default:
            return false;
    }
}

void Connection::start_request(Instant now, State state, const Mad& mad, Outbox& out) {
    last_ = mad;
    retries_ = 0;
    set_state(state, now + response_time_);
    out.send(info_.path, last_);
}

void Connection::repeat(Outbox& out) {
    ++out.counters.tx_repeated;
    out.send(info_.path, last_);
}

void Connection::handle_timeout(Instant now, Outbox& out) {
    if (deadline_ > now) return;
    switch (info_.state) {
        // After an MRA the ordinary repetition goes on: the peer had the time it asked for.
        case State::MraReqRcvd:
            info_.state = State::ReqSent;
            break;
        case State::MraRepRcvd:
            info_.state = State::RepSent;
            break;
        case State::ReqSent:
        case State::RepSent:
        case State::DreqSent:
        case State::SidrReqSent:
            break;
        case State::Timewait:
            add_event(out, EventKind::TimewaitExit);
            return set_state(State::Closed);
        case State::Answered:
            return set_state(State::Closed);
        default:
            deadline_ = kNever;
            return;
    }
    // IBTA 12.7: Max CM Retries counts repetitions, not transmissions.
    if (retries_ >= max_retries_) return give_up(now, out);
    ++retries_;
    ++out.counters.tx_retries;
    deadline_ = now + response_time_;
    out.send(info_.path, last_);
}

void Connection::give_up(Instant now, Outbox& out) {
    ++out.counters.timeouts;
    switch (info_.state) {
        case State::ReqSent:
        case State::RepSent:
            // IBTA 12.9.7: the peer may be half way through; a REJ with reason "timeout" frees it.
            send_rej(make_timeout_rej(), out);
            add_event(out, EventKind::Unreachable, kStatusTimedOut);
            return set_state(State::Closed);
        case State::DreqSent:
            add_event(out, EventKind::Disconnected, kStatusTimedOut);
            return enter_timewait(now);
        default:
            add_event(out, EventKind::SidrResult, kStatusTimedOut);
            return set_state(State::Closed);
    }
}

Event* Connection::add_event(Outbox& out, EventKind kind, int32_t status) {
    if (orphan_ || !out.has_event_room()) return nullptr;
    Event& event = out.add_event();
    event = Event{};
    event.owner = owner_;
    event.id = id_;
    event.cookie = cookie_;
    event.kind = kind;
    event.status = status;
    event.info = info_;
    return &event;
}

void Connection::give_private_data(Event* event, Bytes data) {
    if (event == nullptr) return;
    fill(event->private_data, data);
    event->private_data_size = static_cast<uint16_t>(data.size());
}

// A request arrived: this end answers to where it came from.
void Connection::adopt_path(const RxMad& rx, const IpHeader& ip, BindingId binding, uint64_t cookie) {
    info_.active = false;
    info_.path = rx.path;
    info_.ip = ip;
    binding_ = binding;
    cookie_ = cookie;
    transaction_ = MadHeader::parse(rx.mad).transaction_id;
}

}  // namespace rocemu::cm
