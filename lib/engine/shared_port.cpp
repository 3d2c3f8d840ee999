// SPDX-License-Identifier: BSD-3-Clause
// See shared_port.h.
#include "engine/shared_port.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/spsc_ring.h"
#include "engine/groups.h"
#include "wire/dest_qp.h"

namespace rocemu::engine {

namespace {

constexpr uint32_t kRingFrames = 4096;

// Wake-up of one shard that sleeps; the same handshake as everywhere: work, fence, look at the flag.
struct Bell {
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    std::atomic<uint32_t> sleeping{0};

    Bell() = default;
    Bell(const Bell&) = delete;
    Bell& operator=(const Bell&) = delete;
    ~Bell() {
        if (fd >= 0) close(fd);
    }
    void prepare() {
        uint64_t count;
        [[maybe_unused]] const auto n = read(fd, &count, sizeof count);
        sleeping.store(1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    void ring() {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (sleeping.load(std::memory_order_relaxed) == 0 || sleeping.exchange(0) == 0) return;
        const uint64_t one = 1;
        [[maybe_unused]] const auto n = write(fd, &one, sizeof one);
    }
};

// Between shard 0 and one other shard.
struct Lane {
    SpscRing<Frame> rx{kRingFrames}, tx{kRingFrames};
    Bell other;
};

}  // namespace

struct SharedPort::Impl {
    Impl(Port& r, FramePool& p) : real(r), pool(p) {}
    ~Impl();

    Port& real;
    FramePool& pool;
    Bell root;                                 // of shard 0
    std::vector<std::unique_ptr<Lane>> lanes;  // of shard i + 1
    std::vector<std::unique_ptr<Port>> ports;
};

namespace {

// Any shard but 0: talks to its lane only.
class LanePort final : public Port {
  public:
    LanePort(Port& real, Lane& lane, Bell& root) : real_(real), lane_(lane), root_(root) {}
    size_t rx_burst(Instant, std::span<Frame> frames) override { return lane_.rx.pop(frames); }
    size_t tx_burst(Instant, std::span<Frame> frames) override {
        const size_t n = lane_.tx.push(frames);
        if (n != 0) root_.ring();
        return n;
    }
    [[nodiscard]] int wake_fd() const override { return lane_.other.fd; }
    void prepare_sleep() override { lane_.other.prepare(); }
    void end_sleep() override { lane_.other.sleeping.store(0, std::memory_order_relaxed); }
    [[nodiscard]] PortInfo info() const override { return real_.info(); }

  private:
    Port& real_;
    Lane& lane_;
    Bell& root_;
};

// Shard 0: the real port, and the work for the others.
class RootPort final : public Port {
  public:
    RootPort(Port& real, FramePool& pool, Bell& bell, std::vector<std::unique_ptr<Lane>>& lanes)
        : real_(real), pool_(pool), bell_(bell), lanes_(lanes), epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
        watch(bell_.fd);
        if (real_.wake_fd() >= 0) watch(real_.wake_fd());
    }

    size_t rx_burst(Instant now, std::span<Frame> frames) override {
        last_ = now;
        forward_tx(now);
        const size_t n = real_.rx_burst(now, frames);
        const auto shards = static_cast<uint32_t>(lanes_.size()) + 1;
        size_t kept = 0;
        for (size_t i = 0; i < n; ++i) {
            const uint32_t qpn = wire::dest_qp_of({frames[i].data, frames[i].length});
            if (qpn == kMulticastQpn) copy_to_all(frames[i]);  // members may be anywhere; shard 0 keeps the frame
            const uint32_t owner = qpn == kMulticastQpn ? 0 : qpn == wire::kNoDestQp ? 0 : wire::shard_of_qpn(qpn, shards);
            if (owner == 0) {
                frames[kept++] = frames[i];
                continue;
            }
            Lane& lane = *lanes_[owner - 1];
            // A NIC's full receive queue loses the frame; the transport repeats it.
            if (lane.rx.push({&frames[i], 1}) == 0) pool_.free({&frames[i], 1});
            lane.other.ring();
        }
        return kept;
    }
    size_t tx_burst(Instant now, std::span<Frame> frames) override {
        forward_tx(now);
        return real_.tx_burst(now, frames);
    }
    // What waits in the lanes is sent at once; a port that cannot wake us is looked at every millisecond, one that is full
    // much sooner.
    [[nodiscard]] Instant next_deadline() const override {
        if (held_count_ != 0) return last_ + 20 * kMicrosecond;
        if (std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return !lane->tx.empty(); })) return last_;
        return real_.wake_fd() < 0 ? last_ + kMillisecond : real_.next_deadline();
    }
    [[nodiscard]] int wake_fd() const override { return epoll_fd_; }  // of both: readable when one of them is
    void prepare_sleep() override {
        real_.prepare_sleep();
        bell_.prepare();
    }
    void end_sleep() override {
        real_.end_sleep();
        bell_.sleeping.store(0, std::memory_order_relaxed);
    }
    [[nodiscard]] PortInfo info() const override { return real_.info(); }

    ~RootPort() override {
        pool_.free({held_.data(), held_count_});
        if (epoll_fd_ >= 0) close(epoll_fd_);
    }

  private:
    void watch(int fd) const {
        epoll_event event{};
        event.events = EPOLLIN;
        epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
    }
    void copy_to_all(const Frame& frame) {
        for (auto& lane : lanes_) {
            Frame copy;
            if (!pool_.alloc({&copy, 1})) return;
            std::memcpy(copy.data, frame.data, frame.length);
            copy.length = frame.length;
            if (lane->rx.push({&copy, 1}) == 0) pool_.free({&copy, 1});
            lane->other.ring();
        }
    }
    // Frames of the other shards, a burst of each lane; what the port does not take is kept for the next call.
    void forward_tx(Instant now) {
        for (size_t i = 0; i <= lanes_.size(); ++i) {
            if (held_count_ != 0) {
                const size_t taken = real_.tx_burst(now, {held_.data(), held_count_});
                for (size_t k = taken; k < held_count_; ++k) held_[k - taken] = held_[k];
                held_count_ -= taken;
                if (held_count_ != 0) return;
            }
            if (i < lanes_.size()) held_count_ = lanes_[(next_ + i) % lanes_.size()]->tx.pop(held_);
        }
        next_ = (next_ + 1) % lanes_.size();
    }

    Port& real_;
    FramePool& pool_;
    Bell& bell_;
    std::vector<std::unique_ptr<Lane>>& lanes_;
    int epoll_fd_;
    Instant last_{};
    size_t next_ = 0;
    size_t held_count_ = 0;
    std::array<Frame, 64> held_;
};

}  // namespace

SharedPort::Impl::~Impl() {
    ports.clear();
    Frame frame;
    for (auto& lane : lanes) {
        while (lane->rx.pop({&frame, 1}) == 1) pool.free({&frame, 1});
        while (lane->tx.pop({&frame, 1}) == 1) pool.free({&frame, 1});
    }
}

SharedPort::SharedPort(Port& real, FramePool& pool, uint32_t shards) : impl_(std::make_unique<Impl>(real, pool)) {
    for (uint32_t i = 1; i < shards; ++i) impl_->lanes.push_back(std::make_unique<Lane>());
    if (shards > 1) impl_->ports.push_back(std::make_unique<RootPort>(real, pool, impl_->root, impl_->lanes));
    for (auto& lane : impl_->lanes) impl_->ports.push_back(std::make_unique<LanePort>(real, *lane, impl_->root));
}
SharedPort::~SharedPort() = default;

Port& SharedPort::port(uint32_t shard) {
    return impl_->ports.empty() ? impl_->real : *impl_->ports[shard];
}

}  // namespace rocemu::engine
