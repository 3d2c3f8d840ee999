// SPDX-License-Identifier: BSD-3-Clause
// Machine: the protocol of one transport, chosen once, when the QP is created. All machines have the same methods; the
// Qp passes calls on and knows nothing else about them. Adding a transport: a class with these methods and a line here.
//
//   kConnected                  whether it has one peer
//   start_receiving, start_sending, resume_sending (SQE to RTS), stop (entering ERR), reset
//   handle(packet, now, may_keep)  a packet of the QP's transport, in a state that takes it; true: it is kept
//   poll_kept(), kept_ready()   see Qp
//   must_wait(packet)           it would be dropped now and not a little later
//   executed(op, status, original), gather_failed(tag), transmitted(), handle_timeout(now)
//   poll_transmit(now, budget, batch), next_deadline()
#pragma once

#include <variant>

#include "transport/rc_machine.h"
#include "transport/unacked_machine.h"

namespace rocemu::transport {

using Machine = std::variant<RcMachine, UcMachine, UdMachine, RawMachine>;

// Precondition: the type is one of those that control lets programs create.
[[nodiscard]] inline Machine make_machine(QpContext& ctx, SendQueue& sends, ReceiveQueue& receives) {
    if (ctx.config.type == QpType::Uc) return Machine(std::in_place_type<UcMachine>, ctx, sends, receives);
    if (ctx.config.type == QpType::Ud) return Machine(std::in_place_type<UdMachine>, ctx, sends, receives);
    if (ctx.config.type == QpType::RawPacket) return Machine(std::in_place_type<RawMachine>, ctx, sends, receives);
    return Machine(std::in_place_type<RcMachine>, ctx, sends, receives);
}

}  // namespace rocemu::transport
