// SPDX-License-Identifier: BSD-3-Clause
// Qp: the facade. Passes inputs to the part they concern and collects outputs; the protocol is in those parts:
// qp_state_table, requester, completer, retry, responder, completions.
#include "transport/qp.h"

#include <algorithm>
#include <bit>

#include "transport/completer.h"
#include "transport/completions.h"
#include "transport/qp_state_table.h"
#include "transport/requester.h"
#include "transport/responder.h"

namespace rocemu::transport {

struct Qp::Impl {
    Impl(Qp* qp, const QpConfig& config, Environment env)
        : ctx(qp, config, env),
          send_queue(config.send_window_wqes, config.caps.max_send_sge),
          receive_queue(config.recv_window_wqes, config.caps.max_recv_sge),
          retry(ctx.attr),
          requester(ctx, send_queue, retry),
          completer(ctx, send_queue, retry),
          responder(ctx, receive_queue) {}

    ~Impl();

    void leave_windows();
    void reset();
    void changed_state(QpState from);
    void check_drained();

    QpContext ctx;
    SendQueue send_queue;
    ReceiveQueue receive_queue;
    Retry retry;
    Requester requester;
    Completer completer;
    Responder responder;
};

Qp::Impl::~Impl() {
    leave_windows();
}

// A number that is used again must not find the windows of its predecessor.
void Qp::Impl::leave_windows() {
    if (ctx.has_windows) ctx.env.keys.unbind_all_of(ctx.config.qpn);
    ctx.has_windows = false;
}

void Qp::Impl::reset() {
    leave_windows();
    ctx.dma.abandon();
    ++ctx.generation;
    ctx.events = 0;
    ctx.established = false;
    ctx.attr = QpAttr{};
    send_queue.clear();
    receive_queue.clear();
    retry.stop();
    completer.reset();
    responder.reset();
}

void Qp::Impl::changed_state(QpState from) {
    const QpState to = ctx.state();
    if (to == QpState::Reset) return reset();
    if (from == QpState::Init && to == QpState::Rtr) responder.start();
    if (from == QpState::Rtr && to == QpState::Rts) requester.start();
    if (to == QpState::Sqd && from != QpState::Sqd) ctx.attr.sq_draining = 1;
    if (to == QpState::Rts) ctx.attr.sq_draining = 0;
    if (to == QpState::Err && from != QpState::Err) {
        retry.stop();
        ctx.entered_error();
    }
}

// IBTA 10.3.1.5: drained when everything begun has completed; told once, if asked for.
void Qp::Impl::check_drained() {
    if (ctx.state() != QpState::Sqd || !ctx.attr.sq_draining) return;
    if (send_queue.una_seq != send_queue.started_seq || ctx.dma.placed(DmaOwner::Completer) < send_queue.data_mark)
        return;
    ctx.attr.sq_draining = 0;
    if (ctx.attr.en_sqd_async_notify) ctx.raise(AsyncEvent::SqDrained);
}

Qp::Qp(const QpConfig& config, Environment env) : impl_(std::make_unique<Impl>(this, config, env)) {}
Qp::~Qp() = default;

int Qp::modify(const QpAttr& attr, uint32_t mask, Instant, const char** bad_attr) {
    QpContext& ctx = impl_->ctx;
    const ModifyLimits limits{ctx.config.max_rd_atomic, ctx.config.max_dest_rd_atomic, ctx.config.max_path_mtu};
    const QpState from = ctx.state();
    if (const int error = check_modify(ctx.config.type, from, attr, mask, limits, bad_attr)) return error;
    apply_modify(ctx.attr, attr, mask);
    if (mask & qp_attr_mask::kPathMtu) ctx.mtu = 128u << attr.path_mtu;
    if (mask & qp_attr_mask::kState) impl_->changed_state(from);
    impl_->check_drained();
    return 0;
}

void Qp::query(QpAttr& attr) const {
    attr = impl_->ctx.attr;
    attr.cur_state = attr.state;
}

uint32_t Qp::send_room() const {
    return impl_->send_queue.ring.room();
}

void Qp::post_send(const SendWqe& wqe, std::span<const Sge> sges, Instant) {
    impl_->send_queue.post(wqe, sges);
}

uint32_t Qp::recv_room() const {
    return impl_->receive_queue.ring.room();
}

void Qp::post_recv(const RecvWqe& wqe, std::span<const Sge> sges) {
    impl_->receive_queue.post(wqe, sges);
}

void Qp::set_receives_waiting(uint32_t count) {
    impl_->receive_queue.waiting = count;
}

bool Qp::reclaim_recv() {
    return impl_->receive_queue.reclaim();
}

bool Qp::handle_packet(const wire::PacketView& packet, Instant now, bool may_keep) {
    QpContext& ctx = impl_->ctx;
    const bool response = packet.op->is_response();
    // IBTA 9.6.1.2.1: the opcode must be one of the QP's transport. In RESET, INIT and ERR packets are dropped
    // silently.
    if (packet.op->transport != wire::Transport::Rc || !(response ? ctx.can_request() : ctx.can_respond())) {
        ctx.count(Counter::rx_dropped_in_state);
        return false;
    }
    if (ctx.state() == QpState::Rtr) ctx.communication_established();
    may_keep = may_keep && ctx.config.reorder_packets != 0;
    bool kept;
    if (response) {
        kept = impl_->completer.handle(packet, now, may_keep);
    } else {
        ctx.responses_expected = impl_->send_queue.responses_expected(ctx.dma.half());
        kept = impl_->responder.handle(packet, now, may_keep);
    }
    impl_->check_drained();
    return kept;
}

void Qp::handle_dma(uint64_t tag, DmaStatus status, uint64_t atomic_original, Instant) {
    QpContext& ctx = impl_->ctx;
    const DmaOp op = ctx.dma.finish(tag, status);
    if (op.owner == DmaOwner::None) return;
    if (op.owner == DmaOwner::Completer)
        impl_->completer.placed(op, status);
    else
        impl_->responder.executed(op, status, atomic_original);
    if (op.ack_packet != 0 && !ctx.dma.faulted(DmaOwner::Responder)) impl_->responder.placed(op.ack_packet, op.ack_msn);
    impl_->check_drained();
}

void Qp::handle_gather_failed(uint64_t gather_tag, Instant) {
    QpContext& ctx = impl_->ctx;
    if (!ctx.is_current(gather_tag)) return;  // of a connection before the last reset
    if (gather_tag & kResponseTag) {
        if (ctx.can_respond()) impl_->responder.gather_failed(psn_of_tag(gather_tag));
    } else if (ctx.can_request()) {
        impl_->requester.gather_failed(psn_of_tag(gather_tag));
    }
}

void Qp::handle_timeout(Instant now) {
    impl_->completer.handle_timeout(now);
    impl_->responder.handle_timeout(now);
    impl_->requester.handle_timeout(now);
}

// No congestion control yet: recognised, counted, never answered.
void Qp::handle_cnp(Instant) {
    impl_->ctx.count(Counter::rp_cnp_ignored);
}

bool Qp::poll_dma(DmaBatch& batch) {
    return impl_->ctx.dma.poll(this, batch);
}

bool Qp::poll_transmit(Instant now, uint32_t budget_bytes, TxBatch& batch) {
    TxBudget budget{budget_bytes};
    // Responses first: if a gather of ours fails, everything behind it is lost to the peer.
    if (impl_->responder.poll_transmit(budget, batch)) return true;
    return impl_->requester.poll_transmit(now, budget, batch);
}

bool Qp::poll_completions(CompletionBatch& batch) {
    const bool more = emit_send_completions(impl_->ctx, impl_->send_queue, batch);
    return emit_receive_completions(impl_->ctx, impl_->receive_queue, batch) || more;
}

std::optional<AsyncEvent> Qp::poll_event() {
    uint32_t& events = impl_->ctx.events;
    if (events == 0) return std::nullopt;
    const int bit = std::countr_zero(events);
    events &= events - 1;
    return static_cast<AsyncEvent>(bit);
}

std::optional<KeptPacket> Qp::poll_kept() {
    if (impl_->responder.kept_ready()) return KeptPacket{psn_of(impl_->responder.take_kept()), false};
    if (impl_->completer.kept_ready()) return KeptPacket{psn_of(impl_->completer.take_kept()), true};
    return std::nullopt;
}

bool Qp::kept_ready() const {
    return impl_->responder.kept_ready() || impl_->completer.kept_ready();
}

Instant Qp::next_deadline() const {
    return std::min(
        {impl_->requester.next_deadline(), impl_->completer.next_deadline(), impl_->responder.next_deadline()});
}

const QpConfig& Qp::config() const {
    return impl_->ctx.config;
}
QpState Qp::state() const {
    return impl_->ctx.state();
}
bool Qp::dma_idle() const {
    return impl_->ctx.dma.idle();
}
const QpAttr& Qp::attr() const {
    return impl_->ctx.attr;
}

}  // namespace rocemu::transport
