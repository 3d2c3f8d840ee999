// SPDX-License-Identifier: BSD-3-Clause
// The end of a connection: DREQ, DREP, time wait, destruction by the owner; and LAP, which is refused.
// Read IBTA volume 1, 12.9.8 (release, TimeWait) and 12.8 (alternate paths).
#include "cm/connection.h"
#include "cm/drep.h"
#include "cm/timing.h"

namespace rocemu::cm {

// IBTA 12.9.8: packets of the old connection may be in the network for twice the packet lifetime plus the ACK delay.
void Connection::enter_timewait(Instant now) {
    set_state(State::Timewait, now + time_of(info_.ack_timeout));
}

Status Connection::disconnect(Instant now, Bytes private_data, Outbox& out) {
    switch (info_.state) {
        case State::Established: {
            Dreq dreq{.local_comm_id = id_, .remote_comm_id = remote_id_, .remote_qpn = info_.remote_qpn};
            if (private_data.size() > dreq.private_data.size()) return Status::InvalidArgument;
            fill(dreq.private_data, private_data);
            start_request(now, State::DreqSent, make_mad(own_transaction(), dreq), out);
            return Status::Ok;
        }
        case State::DreqRcvd:
            if (private_data.size() > Drep::kPrivateDataSize) return Status::InvalidArgument;
            send_drep(private_data, out);
            enter_timewait(now);
            return Status::Ok;
        default:
            return Status::InvalidState;
    }
}

void Connection::send_drep(Bytes private_data, Outbox& out) {
    Drep drep{.local_comm_id = id_, .remote_comm_id = remote_id_};
    fill(drep.private_data, private_data);
    last_ = make_mad(transaction_, drep);
    out.send(info_.path, last_);
}

void Connection::handle_dreq(Instant now, const Dreq& dreq, uint64_t transaction_id, Outbox& out) {
    // IBTA 12.6.10: the DREQ names our QP.
    if (dreq.remote_qpn != info_.local_qpn) {
        ++out.counters.drop_wrong_peer;
        return;
    }
    switch (info_.state) {
        case State::RepSent:  // the RTU was lost, the peer has already had enough
        case State::MraRepRcvd:
        case State::Established:
            transaction_ = transaction_id;
            give_private_data(add_event(out, EventKind::Disconnected), dreq.private_data);
            set_state(State::DreqRcvd);
            if (orphan_) {
                send_drep({}, out);
                enter_timewait(now);
            }
            return;
        case State::DreqSent:
            // IBTA 12.9.8: both asked at once. Each answers the other and is done.
            transaction_ = transaction_id;
            add_event(out, EventKind::Disconnected);
            send_drep({}, out);
            return enter_timewait(now);
        case State::Timewait:
        case State::Closed:
            // IBTA 12.9.8: what is over is released. Time wait is shorter than the time after which a peer that lost
            // our DREP asks again.
            ++out.counters.rx_duplicates;
            transaction_ = transaction_id;
            set_remote_id(dreq.local_comm_id);  // new only where no connection came about
            return send_drep({}, out);
        case State::DreqRcvd:
            ++out.counters.rx_duplicates;
            return;
        default:
            ++out.counters.drop_wrong_state;
    }
}

void Connection::handle_drep(Instant now, Outbox& out) {
    if (info_.state == State::DreqSent) {
        add_event(out, EventKind::Disconnected);
        enter_timewait(now);
    } else if (info_.state == State::Timewait) {
        ++out.counters.rx_duplicates;
    } else {
        ++out.counters.drop_wrong_state;
    }
}

void Connection::handle_lap(const Lap& lap, uint64_t transaction_id, Outbox& out) {
    if (info_.state != State::Established) {
        ++out.counters.drop_wrong_state;
        return;
    }
    // IBTA 12.8.2: an end that has no alternate paths says so; the connection goes on.
    const Apr apr{.local_comm_id = id_, .remote_comm_id = lap.local_comm_id, .status = AprStatus::Unsupported};
    out.send(info_.path, make_mad(transaction_id, apr));
}

void Connection::supersede(Instant now, Outbox& out) {
    if (info_.state == State::Established) {
        // IBTA 12.9.8.3.1: release what the peer has forgotten; its DREP, or the lack of it, ends it for the owner.
        disconnect(now, {}, out);
        return;
    }
    if (!occupies_remote_qp()) return;
    add_event(out, EventKind::Rejected, static_cast<int32_t>(RejectReason::StaleConnection));
    set_state(State::Closed);
}

void Connection::abandon(Instant now, Outbox& out) {
    orphan_ = true;
    switch (info_.state) {
        case State::ReqSent:
        case State::MraReqRcvd:
            send_rej(make_timeout_rej(), out);
            return set_state(State::Closed);
        case State::ReqRcvd:
        case State::MraReqSent:
        case State::RepRcvd:
        case State::MraRepSent:
        case State::RepSent:
        case State::MraRepRcvd:
            reject(now, {}, out);
            return;
        case State::Established:
        case State::DreqRcvd:
            disconnect(now, {}, out);
            return;
        case State::SidrReqSent:
            return set_state(State::Closed);
        case State::SidrReqRcvd:
            sidr_reply(now, {.status = SidrStatus::RejectedByService}, out);
            return;
        case State::Answered:
            return linger(now);
        default:  // DreqSent and Timewait run to their end; Closed is over
            return;
    }
}

}  // namespace rocemu::cm
