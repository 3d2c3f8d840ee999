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

#include "base/fixed_ring.h"
#include "base/spsc_ring.h"
#include "engine/groups.h"
#include "wire/dest_qp.h"
#include "wire/mac.h"

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

PortInfo info_of(const Port& real) {
    PortInfo info = real.info();
    info.receives_own_frames = true;  // whatever the real one does
    return info;
}

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
    [[nodiscard]] PortInfo info() const override { return info_of(real_); }

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
        const PortInfo info = real_.info();
        set_mac(info.mac);
        watch(bell_.fd);
        if (real_.wake_fd() >= 0) watch(real_.wake_fd());
    }

    size_t rx_burst(Instant now, std::span<Frame> frames) override {
        last_ = now;
        forward_tx(now);
        size_t kept = 0;
        for (; kept < frames.size() && !own_.empty(); own_.pop()) frames[kept++] = own_.front();
        const std::span<Frame> rest = frames.subspan(kept);
        const size_t n = real_.rx_burst(now, rest);
        for (size_t i = 0; i < n; ++i) {
            if (is_for_group(rest[i])) copy_to_all(rest[i], 0);  // members may be anywhere; shard 0 keeps the frame
            const uint32_t owner = is_to_self(rest[i]) ? owner_of(rest[i]) : 0;
            // A NIC's full receive queue loses the frame; the transport repeats it.
            if (owner == 0)
                frames[kept++] = rest[i];
            else if (!give(rest[i], owner))
                pool_.free({&rest[i], 1});
        }
        return kept;
    }
    size_t tx_burst(Instant now, std::span<Frame> frames) override {
        forward_tx(now);
        // What is left of a call comes again with the next one.
        for (; copied_ < frames.size(); ++copied_)
            if (is_for_group(frames[copied_])) copy_to_all(frames[copied_], 0);
        const size_t n = send(now, frames);
        copied_ -= n;
        return n;
    }
    // What waits in the lanes is sent at once; a port that cannot wake us is looked at every millisecond, one that is full
    // much sooner.
    [[nodiscard]] Instant next_deadline() const override {
        if (held_count_ != 0) return last_ + 20 * kMicrosecond;
        if (!own_.empty() || std::any_of(lanes_.begin(), lanes_.end(), [](const auto& l) { return !l->tx.empty(); }))
            return last_;
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
    void set_mac(std::span<const uint8_t, 6> mac) override { std::copy(mac.begin(), mac.end(), mac_.begin()); }
    [[nodiscard]] PortInfo info() const override { return info_of(real_); }

    ~RootPort() override {
        pool_.free({held_.data(), held_count_});
        for (; !own_.empty(); own_.pop()) pool_.free({&own_.front(), 1});
        if (epoll_fd_ >= 0) close(epoll_fd_);
    }

  private:
    void watch(int fd) const {
        epoll_event event{};
        event.events = EPOLLIN;
        epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
    }
    [[nodiscard]] bool is_to_self(const Frame& frame) const { return wire::same_mac(frame.data, mac_); }
    [[nodiscard]] static bool is_for_group(const Frame& frame) {
        return (std::to_integer<uint8_t>(frame.data[0]) & 1) != 0 &&
               wire::dest_qp_of({frame.data, frame.length}) == kMulticastQpn;
    }
    // Which shard has the QP; what names none, and frames for others, are for the rules of shard 0 (kRawShard).
    [[nodiscard]] uint32_t owner_of(const Frame& frame) const {
        const uint32_t qpn = wire::dest_qp_of({frame.data, frame.length});
        return qpn == wire::kNoDestQp ? 0 : wire::shard_of_qpn(qpn, static_cast<uint32_t>(lanes_.size()) + 1);
    }
    // False: there is no room.
    bool give(const Frame& frame, uint32_t shard) {
        if (shard == 0) {
            if (own_.full()) return false;
            own_.push(frame);
            return true;
        }
        Lane& lane = *lanes_[shard - 1];
        if (lane.rx.push({&frame, 1}) == 0) return false;
        lane.other.ring();
        return true;
    }
    // `from` has it already.
    void copy_to_all(const Frame& frame, uint32_t from) {
        for (uint32_t shard = 0; shard <= lanes_.size(); ++shard) {
            if (shard == from) continue;
            Frame copy;
            if (!pool_.alloc({&copy, 1})) return;
            std::memcpy(copy.data, frame.data, frame.length);
            copy.length = frame.length;
            if (!give(copy, shard)) pool_.free({&copy, 1});
        }
    }
    // Frames of any shard. IEEE 802.3: a NIC does not put what is for itself on the wire, nor does the wire bring it back;
    // the shard of the QP gets it.
    size_t send(Instant now, std::span<Frame> frames) {
        size_t n = 0;
        while (n < frames.size()) {
            if (is_to_self(frames[n])) {
                if (!give(frames[n], owner_of(frames[n]))) return n;
                ++n;
                continue;
            }
            size_t end = n + 1;
            while (end < frames.size() && !is_to_self(frames[end])) ++end;
            n += real_.tx_burst(now, frames.subspan(n, end - n));
            if (n < end) return n;
        }
        return n;
    }
    // Frames of the other shards, a burst of each lane; what the port does not take is kept for the next call.
    void forward_tx(Instant now) {
        for (size_t i = 0; i <= lanes_.size(); ++i) {
            if (held_count_ != 0) {
                const size_t taken = send(now, {held_.data(), held_count_});
                for (size_t k = taken; k < held_count_; ++k) held_[k - taken] = held_[k];
                held_count_ -= taken;
                if (held_count_ != 0) return;
            }
            if (i == lanes_.size()) break;
            const size_t lane = (next_ + i) % lanes_.size();
            held_count_ = lanes_[lane]->tx.pop(held_);
            // No port returns them, and the sender's own members have theirs (Device::loop_back).
            for (size_t k = 0; k < held_count_; ++k)
                if (is_for_group(held_[k])) copy_to_all(held_[k], static_cast<uint32_t>(lane) + 1);
        }
        next_ = (next_ + 1) % lanes_.size();
    }

    Port& real_;
    FramePool& pool_;
    Bell& bell_;
    std::vector<std::unique_ptr<Lane>>& lanes_;
    int epoll_fd_;
    wire::MacAddress mac_{};
    Instant last_{};
    size_t next_ = 0;
    size_t held_count_ = 0;
    std::array<Frame, 64> held_;
    FixedRing<Frame> own_{kRingFrames};  // received by shard 0 from this port itself
    size_t copied_ = 0;  // frames that tx_burst did not take, of which there are copies already
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
