// SPDX-License-Identifier: BSD-3-Clause
// See capture_writer.h. Everything of State is guarded by its mutex, but what the thread is writing: `file` is its own.
#include "control/capture_writer.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace rocemu::control {
namespace {

using namespace std::chrono_literals;

constexpr size_t kMaxBuffered = 64u << 20;
constexpr size_t kPipeBuf = 4096;  // PIPE_BUF: a pipe that is writable takes so many without waiting
constexpr int kLookAgainMs = 100;  // a pipe that is full: has the capture ended?
constexpr auto kLastWords = 5s;    // what a pipe may take for the rest then; below the tool's patience

bool is_ready(int fd, short events, int timeout_ms) {
    pollfd p{fd, events, 0};
    return ::poll(&p, 1, timeout_ms) == 1;
}

}  // namespace

struct CaptureWriter::State {
    UniqueFd file, ended;
    bool regular = false;

    std::mutex mutex;
    std::condition_variable more;
    std::vector<std::byte> waiting;  // made, not begun to be written
    std::deque<uint64_t> ends;       // of frames that are not whole in the file, as positions there
    uint64_t made = 0, written = 0;  // bytes
    uint64_t whole = 0;              // up to the end of the last whole frame
    Outcome outcome;
    bool finishing = false, over = false;

    void write(std::span<const std::byte> bytes, std::unique_lock<std::mutex>& lock);
    void account(ssize_t n, int error);
};

CaptureWriter::CaptureWriter(UniqueFd file, bool regular, std::vector<std::byte> header)
    : state_(std::make_shared<State>()) {
    state_->file = std::move(file);
    state_->regular = regular;
    state_->ended = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!state_->ended) throw std::system_error(errno, std::generic_category(), "eventfd");
    state_->made = state_->whole = header.size();
    state_->waiting = std::move(header);
    std::thread([state = state_] { run(state); }).detach();
}

CaptureWriter::~CaptureWriter() {
    finish();
    (void)is_ready(ended_fd(), POLLIN, 1000);
}

void CaptureWriter::add(std::span<const std::byte> block) {
    State& s = *state_;
    {
        const std::lock_guard lock(s.mutex);
        if (s.over || s.made - s.written + block.size() > kMaxBuffered) {
            ++s.outcome.missed;
            return;
        }
        s.waiting.insert(s.waiting.end(), block.begin(), block.end());
        s.made += block.size();
        s.ends.push_back(s.made);
    }
    s.more.notify_one();
}

void CaptureWriter::finish() {
    {
        const std::lock_guard lock(state_->mutex);
        state_->finishing = true;
    }
    state_->more.notify_one();
}

int CaptureWriter::ended_fd() const {
    return state_->ended.get();
}

CaptureWriter::Outcome CaptureWriter::outcome() const {
    const std::lock_guard lock(state_->mutex);
    return state_->outcome;
}

void CaptureWriter::State::account(ssize_t n, int error) {
    if (n > 0) written += static_cast<uint64_t>(n);
    outcome.error = error;
    for (; !ends.empty() && ends.front() <= written; ends.pop_front()) {
        whole = ends.front();
        ++outcome.frames;
    }
}

// Until all is written, the file has failed, or the capture has ended and a pipe does not take the rest in time.
void CaptureWriter::State::write(std::span<const std::byte> bytes, std::unique_lock<std::mutex>& lock) {
    std::optional<std::chrono::steady_clock::time_point> limit;
    while (!bytes.empty() && !over) {
        if (finishing && !limit) limit = std::chrono::steady_clock::now() + kLastWords;
        lock.unlock();
        ssize_t n = 0;
        int error = 0;
        if (regular || is_ready(file.get(), POLLOUT, kLookAgainMs)) {
            n = ::write(file.get(), bytes.data(), regular ? bytes.size() : std::min(bytes.size(), kPipeBuf));
            if (n == 0) error = EIO;
            if (n < 0 && errno != EINTR && errno != EAGAIN) error = errno;  // full disk, closed pipe
        }
        lock.lock();
        account(n, error);
        bytes = bytes.subspan(static_cast<size_t>(std::max<ssize_t>(n, 0)));
        over = error != 0 || (!regular && limit && std::chrono::steady_clock::now() > *limit);
    }
}

void CaptureWriter::run(const std::shared_ptr<State>& state) {
    State& s = *state;
    std::vector<std::byte> bytes;
    std::unique_lock lock(s.mutex);
    while (!s.over) {
        s.more.wait(lock, [&] { return s.finishing || !s.waiting.empty(); });
        if (s.waiting.empty()) break;
        bytes.clear();
        bytes.swap(s.waiting);
        s.write(bytes, lock);
    }
    s.over = true;
    s.outcome.missed += s.ends.size();
    s.ends.clear();
    s.waiting = {};
    const bool cut = s.regular && s.written > s.whole;
    lock.unlock();  // what follows may take as long as a write
    if (cut) (void)!ftruncate(s.file.get(), static_cast<off_t>(s.whole));
    s.file.reset();
    const uint64_t one = 1;
    (void)!::write(s.ended.get(), &one, sizeof one);
}

}  // namespace rocemu::control
