// SPDX-License-Identifier: BSD-3-Clause
// What a MAD from the wire means: which connection it belongs to, whether it really comes from that peer, and what is
// answered when there is none. Nothing of a MAD is trusted. Read IBTA volume 1, 12.9.5 to 12.9.8 and annex A11.
#include "cm/drep.h"
#include "cm/manager.h"

namespace rocemu::cm {

void CmManager::handle_mad(Instant now, const RxMad& rx) {
    Counters& counters = out_.counters;
    ++counters.rx_mads;
    const MadHeader header = MadHeader::parse(rx.mad);
    if (header.base_version != MadHeader::kBaseVersion || header.mgmt_class != MadHeader::kClassCm ||
        header.method != MadHeader::kMethodSend || rx.source_qpn != kGsiQpn) {
        ++counters.drop_malformed;
        return;
    }
    const auto attribute = static_cast<Attribute>(header.attribute_id);
    if (header.class_version != MadHeader::kClassVersion) {
        ++counters.drop_malformed;
        // IBTA 12.6.7: code 31 for a REQ of another class version. Its local id is where it always was.
        if (attribute == Attribute::Req)
            refuse(rx, RejectReason::InvalidClassVersion, MessageKind::Req, 0, Req::parse(rx.mad).local_comm_id);
        return;
    }
    // At most two events follow from one MAD. Dropped, it will be sent again.
    if (out_.events().room() < 2) {
        ++counters.drop_no_event_room;
        return;
    }
    switch (attribute) {
        case Attribute::Req:
            return on_req(now, rx);
        case Attribute::Rep:
            return on_rep(now, rx);
        case Attribute::Rtu:
            return on_rtu(rx);
        case Attribute::Rej:
            return on_rej(now, rx);
        case Attribute::Mra:
            return on_mra(now, rx);
        case Attribute::Dreq:
            return on_dreq(now, rx);
        case Attribute::Drep:
            return on_drep(now, rx);
        case Attribute::Lap:
            return on_lap(rx);
        case Attribute::SidrReq:
            return on_sidr_req(now, rx);
        case Attribute::SidrRep:
            return on_sidr_rep(rx);
        case Attribute::Apr:  // we never send a LAP
        default:
            ++counters.drop_unknown_attribute;
    }
}

// The connection with these two ids, if the MAD comes from its peer. The peer's id counts once it is known.
Connection* CmManager::find_for(const RxMad& rx, CmId local_id, uint32_t remote_id, bool sidr) {
    Connection* c = table_.find(local_id);
    if (c == nullptr || c->is_sidr() != sidr || (c->knows_remote_id() && c->remote_id() != remote_id)) {
        ++out_.counters.drop_unknown_id;
        return nullptr;
    }
    if (!c->is_peer(rx.path)) {
        ++out_.counters.drop_wrong_peer;
        return nullptr;
    }
    return c;
}

void CmManager::refuse(const RxMad& rx, RejectReason reason, MessageKind message, uint32_t local_id,
                       uint32_t remote_id) {
    const Rej rej{.local_comm_id = local_id, .remote_comm_id = remote_id, .message = message, .reason = reason};
    out_.send(rx.path, make_mad(MadHeader::parse(rx.mad).transaction_id, rej));
}

void CmManager::on_rep(Instant now, const RxMad& rx) {
    const Rep rep = Rep::parse(rx.mad);
    if (table_.find(rep.remote_comm_id) == nullptr) {
        // IBTA 12.6.7 code 6. Our REJ at destruction was lost: without this one the peer would try for minutes.
        ++out_.counters.drop_unknown_id;
        return refuse(rx, RejectReason::InvalidCommId, MessageKind::Rep, rep.remote_comm_id, rep.local_comm_id);
    }
    Connection* c = find_for(rx, rep.remote_comm_id, rep.local_comm_id);
    if (c == nullptr) return;
    if (!c->knows_remote_id()) {
        // IBTA 12.9.8.3.1: that QP of the peer is in another connection, which is therefore stale.
        const uint32_t qpn = qpn_of(rep, c->info().transport);
        if (Connection* stale = table_.find_remote_qp(qpn, rep.local_ca_guid, rx.path)) {
            ++out_.counters.rejected_stale;
            stale->supersede(now, out_);
            table_.settle(*stale);
            c->refuse_stale_rep(rep, out_);
            table_.settle(*c);
            return;
        }
    }
    c->handle_rep(rep, out_);
    table_.settle(*c);
}

void CmManager::on_rtu(const RxMad& rx) {
    const Rtu rtu = Rtu::parse(rx.mad);
    if (table_.find(rtu.remote_comm_id) == nullptr) {
        // We gave up before the RTU came: the active side believes in a connection that does not exist.
        ++out_.counters.drop_unknown_id;
        return refuse(rx, RejectReason::InvalidCommId, MessageKind::Other, rtu.remote_comm_id, rtu.local_comm_id);
    }
    if (Connection* c = find_for(rx, rtu.remote_comm_id, rtu.local_comm_id)) {
        c->handle_rtu(rtu, out_);
        table_.settle(*c);
    }
}

void CmManager::on_rej(Instant now, const RxMad& rx) {
    const Rej rej = Rej::parse(rx.mad);
    Connection* c = nullptr;
    // IBTA 12.6.7 code 4: the sender may not know our id; it names its own and its CA GUID.
    if (rej.reason == RejectReason::Timeout && rej.info_length >= sizeof(uint64_t))
        c = table_.find_remote(rej.local_comm_id, load_be<uint64_t>(rej.info.data()), rx.path, false);
    if (c == nullptr) {
        c = table_.find(rej.remote_comm_id);
        // A REJ of a REQ comes from nowhere (local id 0); every other one names both ends, if we know the peer's.
        const bool peer_id_counts = rej.message != MessageKind::Req && c != nullptr && c->knows_remote_id();
        if (c == nullptr || c->is_sidr() || (peer_id_counts && c->remote_id() != rej.local_comm_id)) {
            ++out_.counters.drop_unknown_id;
            return;
        }
        if (rej.message == MessageKind::Req && !c->info().active) {
            ++out_.counters.drop_wrong_state;
            return;
        }
        if (!c->is_peer(rx.path)) {
            ++out_.counters.drop_wrong_peer;
            return;
        }
    }
    c->handle_rej(now, rej, out_);
    table_.settle(*c);
}

void CmManager::on_mra(Instant now, const RxMad& rx) {
    const Mra mra = Mra::parse(rx.mad);
    if (Connection* c = find_for(rx, mra.remote_comm_id, mra.local_comm_id)) {
        c->handle_mra(now, mra, out_);
        table_.settle(*c);
    }
}

void CmManager::on_dreq(Instant now, const RxMad& rx) {
    const Dreq dreq = Dreq::parse(rx.mad);
    if (table_.find(dreq.remote_comm_id) == nullptr) {
        // IBTA 12.9.8: what does not exist is released; the peer gets its answer.
        ++out_.counters.drop_unknown_id;
        const Drep drep{.local_comm_id = dreq.remote_comm_id, .remote_comm_id = dreq.local_comm_id};
        return out_.send(rx.path, make_mad(MadHeader::parse(rx.mad).transaction_id, drep));
    }
    if (Connection* c = find_for(rx, dreq.remote_comm_id, dreq.local_comm_id)) {
        c->handle_dreq(now, dreq, MadHeader::parse(rx.mad).transaction_id, out_);
        table_.settle(*c);
    }
}

void CmManager::on_drep(Instant now, const RxMad& rx) {
    const Drep drep = Drep::parse(rx.mad);
    if (Connection* c = find_for(rx, drep.remote_comm_id, drep.local_comm_id)) {
        c->handle_drep(now, out_);
        table_.settle(*c);
    }
}

void CmManager::on_lap(const RxMad& rx) {
    const Lap lap = Lap::parse(rx.mad);
    if (Connection* c = find_for(rx, lap.remote_comm_id, lap.local_comm_id))
        c->handle_lap(lap, MadHeader::parse(rx.mad).transaction_id, out_);
}

}  // namespace rocemu::cm
