// SPDX-License-Identifier: BSD-3-Clause
// Captures: see captures.h. The order of ending: taps off on every shard, confirmed; rest drained; written; answer.
#include "control/captures.h"

#include <sys/stat.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "control/control.h"
#include "control/log.h"
#include "control/pcapng.h"
#include "wire/drop_reason.h"

namespace rocemu::control {
namespace {

constexpr uint32_t kRingBytes = 16u << 20;
constexpr uint32_t kWholeFrame = 16384;
constexpr size_t kFramesPerTurn = 4096;  // of a tap: the control thread has other work
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
        for (auto& capture : captures_) drain(capture, kFramesPerTurn);
    });
}

Captures::~Captures() {
    control_.loop.remove(timer_.get());
    for (const auto& capture : captures_) control_.loop.remove(capture.writer->ended_fd());
}

int Captures::start(const Session& owner, uint32_t device, UniqueFd file, uint32_t snap_length) {
    for (const auto& capture : captures_)
        if (capture.device == device) return EBUSY;
    struct stat info {};
    if (!file || fstat(file.get(), &info) != 0) return EBADF;
    if (S_ISREG(info.st_mode) && ftruncate(file.get(), 0) != 0) return errno;
    const uint32_t snap = snap_length == 0 ? kWholeFrame : std::min(snap_length, kWholeFrame);
    std::vector<std::byte> header;
    PcapngWriter(header).begin(control_.devices[device]->name(), snap);
    std::unique_ptr<CaptureWriter> writer;
    try {
        writer = std::make_unique<CaptureWriter>(std::move(file), S_ISREG(info.st_mode), std::move(header));
    } catch (const std::system_error& e) {
        return e.code().value();
    }
    Capture& capture = captures_.emplace_back();
    capture.session = owner.id;
    capture.device = device;
    capture.writer = std::move(writer);
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

void Captures::drain(Capture& capture, size_t frames_of_a_tap) {
    std::array<std::byte, kWholeFrame> bytes;
    std::vector<std::byte> block;
    PcapngWriter packets(block);
    for (auto& tap : capture.taps) {
        engine::TapRecord record;
        for (size_t i = 0; i < frames_of_a_tap && tap->read(record, bytes); ++i) {
            block.clear();
            packets.packet(
                record.unix_ns,
                record.direction == engine::TapDirection::Rx ? PacketDirection::Inbound : PacketDirection::Outbound,
                {bytes.data(), std::min<size_t>(record.captured, bytes.size())}, record.length, comment_of(record));
            capture.writer->add(block);
        }
    }
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
        drain(*it, SIZE_MAX);
        it->writer->finish();
        control_.loop.add(it->writer->ended_fd(), EPOLLIN, [this, it, done](uint32_t) { ended(it, done); });
    });
    return true;
}

void Captures::ended(std::list<Capture>::iterator capture, const std::function<void(const Outcome&)>& done) {
    Outcome outcome = capture->writer->outcome();
    for (const auto& tap : capture->taps) outcome.missed += tap->missed();
    if (outcome.error != 0)
        log::warn("{}: capture: {}: {} frames written, {} missed", control_.devices[capture->device]->name(),
                  std::strerror(outcome.error), outcome.frames, outcome.missed);
    control_.loop.remove(capture->writer->ended_fd());
    captures_.erase(capture);
    if (captures_.empty()) arm(timer_.get(), false);
    done(outcome);
}

void Captures::end_of(const Session& owner) {
    std::vector<uint32_t> devices;
    for (const auto& capture : captures_)
        if (capture.session == owner.id) devices.push_back(capture.device);
    for (const uint32_t device : devices) stop(owner, device, [](const Outcome&) {});
}

}  // namespace rocemu::control
