// SPDX-License-Identifier: BSD-3-Clause
// See reference_party.h.
#include "tests/model/reference_party.h"

#include "support/wire_frames.h"
#include "wire/parse.h"

namespace rocemu::model {

ReferenceParty::ReferenceParty(const Settings& s, uint32_t who, uint64_t memory_bytes)
    : settings_(s),
      who_(who),
      memory_(memory_bytes),
      requester_(settings_, memory_, who == 0 ? s.psn_a : s.psn_b),
      responder_(settings_, memory_, who == 0 ? s.psn_b : s.psn_a) {
    requester_.on_send = [this](transport::Completion c) {
        check_state();
        c.wr_id = sends_;
        c.index = static_cast<uint32_t>(sends_++);
        on_completion(c);
    };
    responder_.on_receive = [this](transport::Completion c) {
        check_state();
        c.wr_id = receives_;
        c.index = static_cast<uint32_t>(receives_++);
        on_completion(c);
    };
}

void ReferenceParty::check_state() {
    if (requester_.failed || responder_.refused) state_ = QpState::Err;
}

void ReferenceParty::deliver(const sim::FrameBytes& bytes, Instant now) {
    wire::PacketView p;
    if (state_ == QpState::Err || !wire::parse_frame(*bytes, p).ok() || !wire::icrc_matches(p)) return;
    if (p.op->is_response())
        requester_.handle(p, now);
    else
        responder_.handle(p);
}

sim::FrameBytes ReferenceParty::frame(wire::Opcode op, uint32_t psn, bool ack_req, bool solicited,
                                      const wire::ExtHeaders& ext, const std::vector<std::byte>& payload) {
    wire::AddressVector av;
    av.src_gid = wire::Gid::from_ipv4(0x0A000001u + who_);
    av.dst_gid = wire::Gid::from_ipv4(0x0A000002u - who_);
    av.udp_source_port = 49152;
    wire::Bth bth;
    bth.opcode = static_cast<uint8_t>(op);
    bth.psn = psn;
    bth.ack_req = ack_req;
    bth.solicited = solicited;
    bth.dest_qp = kQpn[1 - who_];
    return std::make_shared<std::vector<std::byte>>(test::make_frame(av, bth, ext, payload));
}

void ReferenceParty::send_answers(std::vector<sim::FrameBytes>& out) {
    for (const Answer& a : responder_.answers) {
        wire::ExtHeaders ext;
        ext.aeth = a.aeth;
        ext.atomic_ack_eth = {a.original};
        out.push_back(frame(a.opcode, a.psn, false, false, ext, a.payload));
    }
    responder_.answers.clear();
}

void ReferenceParty::pump(Instant now, std::vector<sim::FrameBytes>& out) {
    if (state_ == QpState::Rts || state_ == QpState::Sqd) requester_.poll(now);
    send_answers(out);
    check_state();
    if (state_ == QpState::Err) {
        requester_.asks.clear();
        requester_.flush();
        responder_.flush();
        return;
    }
    for (const Ask& a : requester_.asks)
        out.push_back(frame(a.opcode, a.psn, a.ack_req, a.solicited, a.ext, a.payload));
    requester_.asks.clear();
}

}  // namespace rocemu::model
