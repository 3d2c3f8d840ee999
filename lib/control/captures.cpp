// SPDX-License-Identifier: BSD-3-Clause
// Captures: see captures.h. The order of ending: taps off on every shard, confirmed; rest drained and written; answer.
#include "control/captures.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "control/control.h"
#include "control/log.h"
#include "control/pcapng.h"
#include "wire/drop_reason.h"

namespace rocemu::control {
namespace {

constexpr uint32_t kRingBytes = 16u << 20;
constexpr uint32_t kWholeFrame = 16384;
constexpr size_t kMaxBuffered = 64u << 20;
constexpr int64_t kDrainPeriod = 5 * kMillisecond;

void arm(int timer, bool on) {
    itimerspec t{};
    if (on) t.it_interval.tv_nsec = t.it_value.tv_nsec = kDrainPeriod;
    timerfd_settime(timer, 0, &t, nullptr);
}

std::string comment_of(const engine::TapRecord& record) {
    if (record.drop_reason == 0 || record.drop_reason >= wire::kDropReasonCount) return {};
    const auto& reason = wire::kDropReasons[record.drop_reason];
    return std::string("dropped: ") + reason.name + ": " + reason.help;
}

}  // namespace

Captures::Captures(Control& control)
    : control_(control), timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    control_.loop.add(timer_.get(), EPOLLIN, [this](uint32_t) {
        uint64_t n = 0;
        (void)!::read(timer_.get(), &n, sizeof n);
        drain_all();
    });
}

Captures::~Captures() {
    control_.loop.remove(timer_.get());
}

int Captures::start(const Session& owner, uint32_t device, UniqueFd file, uint32_t snap_length) {
    for (const auto& capture : captures_)
        if (capture.device == device) return EBUSY;
    struct stat info {};
    if (!file || fstat(file.get(), &info) != 0) return EBADF;
    if (S_ISREG(info.st_mode) && ftruncate(file.get(), 0) != 0) return errno;
    const uint32_t snap = snap_length == 0 ? kWholeFrame : std::min(snap_length, kWholeFrame);
    Capture& capture = captures_.emplace_back();
    capture.session = owner.id;
    capture.device = device;
    capture.file = std::move(file);
    capture.pipe = !S_ISREG(info.st_mode);
    PcapngWriter(capture.buffer).begin(control_.devices[device]->name(), snap);
    capture.whole = capture.buffer.size();
    std::vector<engine::CaptureTap*> taps;
    for (uint32_t i = 0; i < control_.shards.size(); ++i) {
        capture.taps.push_back(std::make_unique<engine::CaptureTap>(kRingBytes, snap));
        taps.push_back(capture.taps.back().get());
    }
    control_.shards.submit_all(
        [device, taps](engine::Shard& shard, uint32_t index) {
            shard.set_tap(device, taps[index]);
            return true;
        },
        [] {});
    arm(timer_.get(), true);
    return 0;
}

void Captures::drain_all() {
    for (auto& capture : captures_) drain(capture);
}

void Captures::drain(Capture& capture) {
    std::array<std::byte, kWholeFrame> bytes;
    PcapngWriter writer(capture.buffer);
    for (auto& tap : capture.taps) {
        engine::TapRecord record;
        while (tap->read(record, bytes)) {
            if (capture.buffer.size() > kMaxBuffered) write(capture);
            if (capture.error != 0 || capture.buffer.size() > kMaxBuffered) {
                ++capture.missed;
                continue;
            }
            writer.packet(
                record.unix_ns,
                record.direction == engine::TapDirection::Rx ? PacketDirection::Inbound : PacketDirection::Outbound,
                {bytes.data(), std::min<size_t>(record.captured, bytes.size())}, record.length, comment_of(record));
            capture.ends.push_back(capture.written + capture.buffer.size());
        }
    }
    write(capture);
}

void Captures::write(Capture& capture) {
    size_t done = 0;
    while (done < capture.buffer.size()) {
        // A pipe that says it is writable takes PIPE_BUF bytes without waiting.
        size_t chunk = capture.buffer.size() - done;
        if (capture.pipe) {
            pollfd p{capture.file.get(), POLLOUT, 0};
            if (::poll(&p, 1, 0) != 1 || !(p.revents & (POLLOUT | POLLERR))) break;
            chunk = std::min<size_t>(chunk, 4096);
        }
        const ssize_t n = ::write(capture.file.get(), capture.buffer.data() + done, chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) {
            capture.error = n < 0 ? errno : EIO;  // full disk, closed pipe
            break;
        }
        done += static_cast<size_t>(n);
    }
    capture.buffer.erase(capture.buffer.begin(), capture.buffer.begin() + static_cast<ptrdiff_t>(done));
    capture.written += done;
    for (; !capture.ends.empty() && capture.ends.front() <= capture.written; capture.ends.pop_front()) {
        capture.whole = capture.ends.front();
        ++capture.frames;
    }
    if (capture.error == 0) return;
    capture.missed += capture.ends.size();
    capture.ends.clear();
    capture.buffer.clear();
    if (capture.written > capture.whole && !capture.pipe)
        (void)!ftruncate(capture.file.get(), static_cast<off_t>(capture.whole));
    capture.written = capture.whole;
}

Captures::Outcome Captures::outcome_of(const Capture& capture) {
    Outcome outcome{capture.frames, capture.missed + capture.ends.size(), capture.error};
    for (const auto& tap : capture.taps) outcome.missed += tap->missed();
    return outcome;
}

void Captures::remove_taps(Capture& capture, std::function<void()> done) {
    capture.stopping = true;
    control_.shards.submit_all(
        [device = capture.device](engine::Shard& shard, uint32_t) {
            shard.set_tap(device, nullptr);
            return true;
        },
        std::move(done));
}

bool Captures::stop(const Session& owner, uint32_t device, std::function<void(const Outcome&)> done) {
    const auto it = std::find_if(captures_.begin(), captures_.end(), [&](const Capture& c) {
        return c.session == owner.id && c.device == device && !c.stopping;
    });
    if (it == captures_.end()) return false;
    remove_taps(*it, [this, it, done = std::move(done)] {
        drain(*it);
        const Outcome outcome = outcome_of(*it);
        if (outcome.error != 0)
            log::warn("{}: capture: {}: {} frames written, {} missed", control_.devices[it->device]->name(),
                      std::strerror(outcome.error), outcome.frames, outcome.missed);
        captures_.erase(it);
        if (captures_.empty()) arm(timer_.get(), false);
        done(outcome);
    });
    return true;
}

void Captures::end_of(const Session& owner) {
    std::vector<uint32_t> devices;
    for (const auto& capture : captures_)
        if (capture.session == owner.id) devices.push_back(capture.device);
    for (const uint32_t device : devices) stop(owner, device, [](const Outcome&) {});
}

}  // namespace rocemu::control
