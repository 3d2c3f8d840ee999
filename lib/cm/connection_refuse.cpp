// SPDX-License-Identifier: BSD-3-Clause
// REJ and MRA in both directions. Read IBTA volume 1, 12.6.6, 12.6.7 and 12.9.7.
#include "cm/connection.h"
#include "cm/timing.h"

namespace rocemu::cm {

Rej Connection::make_rej(RejectReason reason) const {
    Rej rej;
    // IBTA 12.6.7: no id of ours exists for the peer before it has heard one. The recorded peer writes 0 as well.
    rej.local_comm_id = info_.state == State::ReqRcvd ? 0 : id_;
    rej.remote_comm_id = remote_id_;
    rej.message = in(State::ReqRcvd, State::MraReqSent)   ? MessageKind::Req
                  : in(State::RepRcvd, State::MraRepSent) ? MessageKind::Rep
                                                          : MessageKind::Other;
    rej.reason = reason;
    return rej;
}

// The peer may never have heard our id: with a timeout it finds the connection by its own id of us and the GUID.
Rej Connection::make_timeout_rej() const {
    Rej rej = make_rej(RejectReason::Timeout);
    rej.local_comm_id = id_;
    rej.info_length = sizeof local_ca_guid_;
    store_be<uint64_t>(rej.info.data(), local_ca_guid_);
    return rej;
}

Status Connection::reject(Instant now, const RejectParams& p, Outbox& out) {
    if (sidr_) return Status::InvalidState;
    Rej rej = make_rej(p.reason);
    if (p.info.size() > rej.info.size() || p.private_data.size() > rej.private_data.size())
        return Status::InvalidArgument;
    fill(rej.info, p.info);
    rej.info_length = static_cast<uint8_t>(p.info.size());
    fill(rej.private_data, p.private_data);
    switch (info_.state) {
        case State::ReqRcvd:
        case State::MraReqSent:
            answer(now, make_mad(transaction_, rej), out);
            return Status::Ok;
        case State::RepRcvd:
        case State::MraRepSent:
            answer(now, make_mad(transaction_, rej), out);
            return Status::Ok;
        case State::RepSent:
        case State::MraRepRcvd:
            send_rej(rej, out);
            enter_timewait(now);
            return Status::Ok;
        default:
            return Status::InvalidState;
    }
}

void Connection::answer(Instant now, const Mad& mad, Outbox& out) {
    last_ = mad;
    if (linger_ == 0) linger_ = 3 * response_time_;
    set_state(State::Answered);
    linger(now);
    out.send(info_.path, last_);
}

// The answer can be asked for again as long as the owner keeps the id, and for some retransmissions longer.
void Connection::linger(Instant now) {
    deadline_ = orphan_ ? now + linger_ : kNever;
}

void Connection::handle_rej(Instant now, const Rej& rej, Outbox& out) {
    const auto tell = [&] {
        if (Event* event = add_event(out, EventKind::Rejected, static_cast<int32_t>(rej.reason))) {
            event->reject_info = rej.info;
            event->reject_info_size = std::min<uint8_t>(rej.info_length, Rej::kInfoSize);
            give_private_data(event, rej.private_data);
        }
    };
    switch (info_.state) {
        case State::ReqSent:
        case State::MraReqRcvd:
        case State::ReqRcvd:
        case State::MraReqSent:
        case State::RepSent:
        case State::MraRepRcvd:
            tell();
            return rej.reason == RejectReason::StaleConnection ? enter_timewait(now) : set_state(State::Closed);
        case State::RepRcvd:
        case State::MraRepSent:
        case State::Established:
            // The peer never saw our RTU, or found the connection stale.
            tell();
            return enter_timewait(now);
        case State::DreqSent:
            add_event(out, EventKind::Disconnected);
            return enter_timewait(now);
        default:
            ++out.counters.drop_wrong_state;
    }
}

void Connection::send_mra(MessageKind message, Outbox& out) {
    Mra mra{.local_comm_id = id_, .remote_comm_id = remote_id_, .message = message};
    mra.service_timeout = config_->mra_service_timeout;
    out.send(info_.path, make_mad(transaction_, mra));
}

void Connection::handle_mra(Instant now, const Mra& mra, Outbox& out) {
    const Instant later = now + time_of(mra.service_timeout) + 2 * time_of(info_.packet_lifetime);
    // One extension per transmission: a peer that asks again and again still runs out of retries.
    if (info_.state == State::ReqSent && mra.message == MessageKind::Req) {
        set_state(State::MraReqRcvd, later);
    } else if (info_.state == State::RepSent && mra.message == MessageKind::Rep) {
        set_state(State::MraRepRcvd, later);
    } else {
        ++out.counters.drop_wrong_state;
    }
}

}  // namespace rocemu::cm
