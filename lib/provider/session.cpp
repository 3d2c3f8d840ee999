// SPDX-License-Identifier: BSD-3-Clause
// See session.h.
#include "provider/session.h"

#include <cerrno>
#include <new>

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "abi/socket_path.h"
#include "guard/fault_guard.h"
#include "provider/agent.h"
#include "provider/high_fd.h"

namespace rocemu::provider {
namespace {

constexpr uint32_t kHelloTimeoutMs = 10'000;
constexpr uint64_t kFeatures =
    abi::kFeatureProcessVm | abi::kFeatureAgent | abi::kFeatureCapture | abi::kFeatureMapped | abi::kFeatureShare;

// Does [offset, offset + bytes) lie in the region, aligned?
bool fits(uint64_t region_bytes, uint64_t offset, uint64_t bytes, uint64_t alignment) {
    return offset % alignment == 0 && bytes <= region_bytes && offset <= region_bytes - bytes;
}

}  // namespace

// On pages of its own that are never converted (share_convert.cpp, is_plain; they have one flag more): a program may register
// whole pages around what it means, and what the daemon sends is received into the session meanwhile.
Session* Session::open(int* error) {
    void* const memory = mmap(nullptr, sizeof(Session), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        *error = ENOMEM;
        return nullptr;
    }
    madvise(memory, sizeof(Session), MADV_DONTDUMP);
    auto* session = new (memory) Session;
    const std::string path = abi::default_socket_path();
    *error = session->set_up(path.c_str());
    if (*error == 0) return session;
    session->~Session();
    munmap(memory, sizeof(Session));
    return nullptr;
}

int Session::set_up(const char* path) {
    if (const int rc = connection_.connect(path, kHelloTimeoutMs); rc != 0) return rc;
    FdList fds;
    int error = 0;
    const HelloFailure failure =
        connection_.hello(false, kFeatures | (guard::install() ? abi::kFeatureDeferred : uint64_t{0}), hello_, fds, &error);
    if (failure != HelloFailure::None) return error;
    connection_.set_timeout(0);

    if (hello_.shards == 0 || hello_.shards > abi::kMaxShards || fds.size() < 1 + hello_.shards) return EPROTO;
    region0_fd_ = move_up(fds.take(0));
    if (const int rc = regions_.add(0, region0_fd_, hello_.region0_bytes, true); rc != 0) return rc;
    std::byte* base = regions_.base(0, &hello_.region0_bytes);
    const uint64_t bytes = hello_.region0_bytes;
    if (!fits(bytes, 0, sizeof(abi::SessionPage), 64) ||
        !fits(bytes, hello_.doorbells_offset, sizeof(abi::DoorbellBlock) * hello_.shards, 64))
        return EPROTO;
    page_ = reinterpret_cast<abi::SessionPage*>(base);
    doorbells_ = reinterpret_cast<abi::DoorbellBlock*>(base + hello_.doorbells_offset);
    if (hello_.agent_offset != 0) {
        if (!fits(bytes, hello_.agent_offset, sizeof(abi::AgentRing) * hello_.shards, alignof(abi::AgentRing)))
            return EPROTO;
        agents_ = reinterpret_cast<abi::AgentRing*>(base + hello_.agent_offset);
    }
    if (hello_.stage_offset != 0) {
        if (!fits(bytes, hello_.stage_offset, abi::kStageBytes, abi::kStageBlock)) return EPROTO;
        if (guard::install()) stage_.set_up(base + hello_.stage_offset);
    }
    if (hello_.receive_stage_offset != 0) {
        if (!fits(bytes, hello_.receive_stage_offset, sizeof(abi::ReceiveStage) * hello_.shards, alignof(abi::ReceiveStage)))
            return EPROTO;
        receive_stage_.set_up(*this, reinterpret_cast<abi::ReceiveStage*>(base + hello_.receive_stage_offset), hello_.shards);
    }
    for (uint32_t i = 0; i < hello_.shards; ++i) wake_fds_[i] = move_up(fds.take(1 + i));

    // 1 MiB of address space; pages come as slots are used.
    void* slots = mmap(nullptr, sizeof(QpSlot) * abi::kMaxQpsPerSession, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slots == MAP_FAILED) return errno;
    qp_slots_ = static_cast<QpSlot*>(slots);
    start_agent_if_wanted();
    return 0;
}

void Session::mark_dead() {
    SessionState expected = SessionState::Alive;
    // Not of a forgotten session: the connection is the parent's. Peers must not write into memory that a program, which
    // believes all to be gone, has freed.
    if (state_.compare_exchange_strong(expected, SessionState::Dead)) connection_.give_up();
}

void Session::forget() {
    state_ = SessionState::Forgotten;
    // Their holders, if any, are threads that do not exist here.
    objects_lock.forget();
    cm_events_lock.forget();
    // The daemon must see the end of the parent even while children live.
    connection_.forget();
    for (int& fd : wake_fds_) {
        if (fd > 0) close(fd);
        fd = -1;
    }
    if (region0_fd_ >= 0) close(region0_fd_);
    region0_fd_ = -1;
}

void Session::check_daemon() {
    if (!alive()) return;
    // POLLIN alone is the reply another thread waits for.
    pollfd p{connection_.fd(), POLLRDHUP, 0};
    if (connection_.broken() || (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)) != 0))
        mark_dead();
    start_agent_if_wanted();
}

bool Session::daemon_answers() {
    abi::ListDeviceReply reply;
    (void)call(abi::ListDeviceRequest{0}, reply);  // an error it answers with is an answer
    return alive();
}

void Session::after_call() {
    if (connection_.broken()) mark_dead();
    start_agent_if_wanted();
}

void Session::start_agent_if_wanted() {
    if (agents_ == nullptr || !alive()) return;
    for (uint32_t i = 0; i < hello_.shards; ++i) {
        if (hello_.payload_path != abi::kPathAgent && agents_[i].wanted.load(std::memory_order_relaxed) == 0) continue;
        const uint32_t bit = 1u << i;
        if ((agents_started_.load(std::memory_order_relaxed) & bit) != 0) continue;
        if ((agents_started_.fetch_or(bit) & bit) != 0) continue;
        const auto stage = reinterpret_cast<std::byte*>(agents_[i].stage) - reinterpret_cast<std::byte*>(page_);
        if (!start_agent(*this, agents_[i], region0_fd_, static_cast<uint64_t>(stage))) agents_started_.fetch_and(~bit);
    }
}

void Session::ring(uint32_t shard, uint32_t slot) const {
    // All read-modify-writes seq_cst: partner of the shard's `sleeping` store and its second look at `top`.
    abi::DoorbellBlock& bell = doorbells_[shard];
    const uint32_t word = slot / 64;
    if (bell.words[word].fetch_or(1ull << slot % 64) == 0) {
        const uint32_t summary = word / 64;
        if (bell.summary[summary].fetch_or(1ull << word % 64) == 0) bell.top.fetch_or(1ull << summary);
    }
    if (bell.sleeping.load() != 0) {
        const uint64_t one = 1;
        // EAGAIN: the counter is full, so the shard is being woken anyway. Not write(3): a thread that is cancelled would
        // end in it, with the locks of whoever posts.
        [[maybe_unused]] const long n = syscall(SYS_write, wake_fds_[shard], &one, sizeof one);
    }
}

}  // namespace rocemu::provider
