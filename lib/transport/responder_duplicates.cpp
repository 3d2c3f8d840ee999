// SPDX-License-Identifier: BSD-3-Clause
// Requests whose PSN was seen before. Nothing is executed twice, nothing is ever NAKed, the MSN does not move.
// Read IBTA volume 1, 9.7.5.1.4 (duplicate SEND, WRITE, READ), 9.7.5.1.5 (duplicate atomics). See responder.h.
#include "transport/responder.h"

namespace rocemu::transport {

using wire::Operation;

void Responder::duplicate(const Request& r) {
    ctx_.count(Counter::duplicate_request);
    switch (r.op.operation) {
        case Operation::Send:
        case Operation::Write:
            // Whether it asks or not: a peer may have stopped before the one that would. A burst of them costs one ACK.
            return duplicate_message(r.psn);
        case Operation::ReadRequest:
            return duplicate_read(r);
        case Operation::CompareSwap:
        case Operation::FetchAdd:
            return duplicate_atomic(r, ResourceKind::Atomic);
        case Operation::AtomicWrite:
            return duplicate_atomic(r, ResourceKind::AtomicWrite);
        default:
            return;
    }
}

// Acknowledged again. The ACK must not pass a READ or atomic behind it whose answer may have been lost: for the peer
// that would be an implied NAK of it.
void Responder::duplicate_message(uint64_t psn) {
    AckPoint point = acks_.placed();
    if (const Resource* next = resources_.first_after(psn); next != nullptr && next->first <= point.psn)
        point = {next->first - 1, (next->msn - 1) & Psn::kMask};
    // Executed but not placed yet: the regular ACK will tell.
    if (point.psn < psn) return acks_.ask(psn);
    acks_.repeat(point);
}

// Read again, from memory as it is now, if it asks for a READ we remember or for the rest of one.
void Responder::duplicate_read(const Request& r) {
    Resource* res = resources_.find(r.psn);
    if (res == nullptr || res->kind != ResourceKind::Read) return;
    const wire::Reth reth = r.packet.reth();
    const uint64_t offset = (r.psn - res->first) * ctx_.mtu;
    if (reth.rkey != res->rkey || reth.va != res->addr + offset || reth.length != res->length - offset) return;
    resources_.replay(*res, r.psn);
}

// IBTA 9.7.5.1.5 and A19: answered from the saved result. One that is still being executed will be answered anyway.
void Responder::duplicate_atomic(const Request& r, ResourceKind kind) {
    Resource* res = resources_.find(r.psn);
    if (res == nullptr || res->kind != kind || res->pending()) return;
    resources_.replay(*res, res->first);
}

}  // namespace rocemu::transport
