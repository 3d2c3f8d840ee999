// SPDX-License-Identifier: BSD-3-Clause
// Qp: the facade. Passes inputs to the part they concern and collects outputs; the protocol is in those parts:
// qp_state_table, the machine of its transport, completions.
#include "transport/qp.h"

#include <algorithm>
#include <bit>

#include "transport/completions.h"
#include "transport/machine.h"
#include "transport/qp_state_table.h"
#include "transport/request_opcode.h"

namespace rocemu::transport {

namespace {

template <typename Slot, typename Wqe>
void fill(Slot slot, const Wqe& wqe, std::span<const Sge> sges) {
    slot.wqe = wqe;
    slot.wqe.num_sge = static_cast<uint8_t>(std::min(sges.size(), slot.sges.size()));
    std::copy_n(sges.data(), slot.wqe.num_sge, slot.sges.data());
}

}  // namespace

struct Qp::Impl {
    Impl(Qp* qp, const QpConfig& config, Environment env)
        : ctx(qp, config, env),
          send_queue(config.send_window_wqes, config.caps.max_send_sge, env.memory),
          receive_queue(config.recv_window_wqes, config.caps.max_recv_sge, env.memory),
          machine(make_machine(ctx, send_queue, receive_queue)) {}

    ~Impl();

    void leave_windows();
    void reset();
    void changed_state(QpState from, uint32_t mask);
    void check_drained();
    // Calls `f` with the machine, whatever its type.
    template <typename F>
    auto visit(F&& f) {
        return std::visit(std::forward<F>(f), machine);
    }

    QpContext ctx;
    SendQueue send_queue;
    ReceiveQueue receive_queue;
    Machine machine;
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
    ctx.last_receive_owed = false;
    ctx.established = false;
    ctx.attr = QpAttr{};
    send_queue.clear();
    receive_queue.clear();
    visit([](auto& m) { m.reset(); });
}

void Qp::Impl::changed_state(QpState from, uint32_t mask) {
    const QpState to = ctx.state();
    if (to == QpState::Reset) return reset();
    if (from == QpState::Init && to == QpState::Rtr) visit([](auto& m) { m.start_receiving(); });
    if (from == QpState::Rtr && to == QpState::Rts) visit([](auto& m) { m.start_sending(); });
    if (from == QpState::Sqe && to == QpState::Rts) visit([](auto& m) { m.resume_sending(); });
    if (to == QpState::Sqd && from != QpState::Sqd) {
        ctx.attr.sq_draining = 1;
        // IBTA 10.3.1.5: the notification is asked for with the transition, not once for all.
        if (!(mask & qp_attr_mask::kEnSqdAsyncNotify)) ctx.attr.en_sqd_async_notify = 0;
    }
    if (to == QpState::Rts) ctx.attr.sq_draining = 0;
    if (to == QpState::Err && from != QpState::Err) {
        visit([](auto& m) { m.stop(); });
        ctx.entered_error();
    }
}

// IBTA 10.3.1.5: drained when everything begun has completed; told once, if asked for.
void Qp::Impl::check_drained() {
    if (ctx.state() != QpState::Sqd || !ctx.attr.sq_draining) return;
    if (!send_queue.nothing_begun() || ctx.dma.placed(DmaOwner::Completer) < send_queue.data_mark) return;
    ctx.attr.sq_draining = 0;
    if (ctx.attr.en_sqd_async_notify) ctx.raise(AsyncEvent::SqDrained);
}

Qp::Qp(const QpConfig& config, Environment env)
    : impl_(std::pmr::polymorphic_allocator<>(env.memory).new_object<Impl>(this, config, env)) {}

void Qp::Free::operator()(Impl* impl) const {
    std::pmr::polymorphic_allocator<>(impl->ctx.env.memory).delete_object(impl);
}
Qp::~Qp() = default;

int Qp::may_modify(const QpAttr& attr, uint32_t mask, const char** bad_attr) const {
    const QpConfig& config = impl_->ctx.config;
    const ModifyLimits limits{config.max_rd_atomic, config.max_dest_rd_atomic, config.max_path_mtu};
    return check_modify(config.type, state(), attr, mask, limits, bad_attr);
}

int Qp::modify(const QpAttr& attr, uint32_t mask, Instant, const char** bad_attr) {
    if (const int error = may_modify(attr, mask, bad_attr)) return error;
    QpContext& ctx = impl_->ctx;
    const QpState from = ctx.state();
    apply_modify(ctx.attr, attr, mask);
    if (mask & qp_attr_mask::kPathMtu) ctx.mtu = 128u << attr.path_mtu;
    if (mask & qp_attr_mask::kState) impl_->changed_state(from, mask);
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
    fill(post_send(), wqe, sges);
}

SendSlot Qp::post_send() {
    return impl_->send_queue.post();
}

uint32_t Qp::recv_room() const {
    return impl_->receive_queue.ring.room();
}

void Qp::post_recv(const RecvWqe& wqe, std::span<const Sge> sges) {
    fill(post_recv(), wqe, sges);
}

RecvSlot Qp::post_recv() {
    return impl_->receive_queue.post();
}

uint32_t Qp::recv_free() const {
    return impl_->receive_queue.free();
}

void Qp::set_receives_waiting(uint32_t count) {
    impl_->receive_queue.waiting = count;
}

bool Qp::reclaim_recv() {
    return impl_->receive_queue.reclaim();
}

void Qp::name_srq(memory::PdId pd) {
    impl_->ctx.recv_pd = impl_->ctx.remote_pd = pd;
}

bool Qp::handle_packet(const wire::PacketView& packet, Instant now, bool may_keep) {
    QpContext& ctx = impl_->ctx;
    bool kept = false;
    impl_->visit([&](auto& m) {
        // In RESET, INIT and ERR packets are dropped silently.
        const bool takes = packet.op->is_response() ? ctx.can_request() : ctx.can_respond();
        if (!transport_fits(ctx.config.type, packet.op->transport) || !takes) return ctx.count(Counter::rx_dropped_in_state);
        if (m.kConnected && ctx.state() == QpState::Rtr) ctx.communication_established();
        kept = m.handle(packet, now, may_keep && ctx.config.reorder_packets != 0);
    });
    impl_->check_drained();
    return kept;
}

bool Qp::must_wait(const wire::PacketView& packet) const {
    return impl_->ctx.can_respond() && impl_->visit([&](const auto& m) { return m.must_wait(packet); });
}

void Qp::handle_dma(uint64_t tag, DmaStatus status, uint64_t atomic_original, Instant) {
    const DmaOp op = impl_->ctx.dma.finish(tag, status);
    if (op.owner == DmaOwner::None) return;
    impl_->visit([&](auto& m) { m.executed(op, status, atomic_original); });
    impl_->check_drained();
}

void Qp::handle_gather_failed(uint64_t gather_tag, Instant) {
    if (!impl_->ctx.is_current(gather_tag)) return;  // of a connection before the last reset
    impl_->visit([&](auto& m) { m.gather_failed(gather_tag); });
    impl_->check_drained();
}

void Qp::handle_transmitted() {
    impl_->visit([](auto& m) { m.transmitted(); });
    impl_->check_drained();
}

void Qp::handle_timeout(Instant now) {
    impl_->visit([&](auto& m) { m.handle_timeout(now); });
}

// No congestion control yet: recognised, counted, never answered.
void Qp::handle_cnp(Instant) {
    impl_->ctx.count(Counter::rp_cnp_ignored);
}

bool Qp::poll_dma(DmaBatch& batch) {
    return impl_->ctx.dma.poll(this, batch);
}

bool Qp::poll_transmit(Instant now, uint32_t budget_bytes, TxBatch& batch, bool requests) {
    TxBudget budget{budget_bytes, requests};
    return impl_->visit([&](auto& m) { return m.poll_transmit(now, budget, batch); });
}

bool Qp::poll_completions(CompletionBatch& batch) {
    const bool sends = emit_send_completions(impl_->ctx, impl_->send_queue, batch);
    const bool receives = emit_receive_completions(impl_->ctx, impl_->receive_queue, batch);
    if (impl_->receive_queue.ring.empty()) impl_->ctx.receives_completed();
    return sends || receives;
}

std::optional<AsyncEvent> Qp::poll_event() {
    uint32_t& events = impl_->ctx.events;
    if (events == 0) return std::nullopt;
    const int bit = std::countr_zero(events);
    events &= events - 1;
    return static_cast<AsyncEvent>(bit);
}

std::optional<KeptPacket> Qp::poll_kept() {
    return impl_->visit([](auto& m) { return m.poll_kept(); });
}

bool Qp::kept_ready() const {
    return impl_->visit([](const auto& m) { return m.kept_ready(); });
}

Instant Qp::next_deadline() const {
    return impl_->visit([](const auto& m) { return m.next_deadline(); });
}

void Qp::prefetch() const {
    for (size_t at = 0; at < sizeof(Impl); at += 64) __builtin_prefetch(reinterpret_cast<const std::byte*>(impl_.get()) + at);
}

void Qp::prefetch_queues() const {
    impl_->send_queue.prefetch();
    impl_->ctx.dma.prefetch();
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
