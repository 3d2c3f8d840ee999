// SPDX-License-Identifier: BSD-3-Clause
// For verbs_rules: checks that go on after a failure, and a connected pair of queue pairs with its memory.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <infiniband/verbs.h>
#include <sys/mman.h>

namespace rules {

inline int failures = 0;
inline const char* group = "";

inline void report(bool ok, const char* what, long long got, long long want, int line) {
    if (ok) return;
    ++failures;
    std::printf("WRONG %s, line %d: %s: %lld, expected %lld\n", group, line, what, got, want);
}
inline void compare(long long got, long long want, const char* what, int line) { report(got == want, what, got, want, line); }
#define RULE(expression) rules::report(static_cast<bool>(expression), #expression, 0, 1, __LINE__)
#define EQUAL(got, want) \
    rules::compare(static_cast<long long>(got), static_cast<long long>(want), #got, __LINE__)

struct Nic {
    ibv_context* context = nullptr;
    ibv_pd* pd = nullptr;
    ibv_gid gid{};
    int gid_index = -1;
    bool open(const char* name);
    void close();
};

struct Side {
    Nic* nic = nullptr;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* cq = nullptr;
    ibv_qp* qp = nullptr;
    ibv_mr* mr = nullptr;
    std::vector<uint8_t> memory = std::vector<uint8_t>(1 << 20);
    bool make(Nic& nic, uint32_t depth, bool with_channel = false);
    void destroy();
    int to_init();
    int to_rtr(const Side& peer, uint8_t rnr_timer = 1);
    int to_rts(uint8_t retry = 7, uint8_t timeout = 14, uint8_t rnr_retry = 7);
    int to_state(ibv_qp_state state);
    int send(uint64_t id, uint32_t length, unsigned flags = IBV_SEND_SIGNALED, uint32_t offset = 0);
    int receive(uint64_t id, uint32_t length, uint32_t offset = 0);
    // One WRITE, READ or FETCH_ADD (of 5) between the beginning of our memory and `address` in the other process; the status
    // of its completion.
    int transfer(ibv_wr_opcode opcode, const void* address, uint32_t rkey, uint32_t length);
    // Waits up to a few seconds for one completion.
    bool poll(ibv_wc& wc);
    bool nothing();
};

bool connect(Side& a, Side& b);

// Private memory that stays it: memory not for children no path makes shared (docs/adr/0013-share.md). For rules about what
// goes away while it is registered: the NIC keeps shared memory, as adapters keep what they have pinned.
inline void* private_memory(size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EQUAL(madvise(p, bytes, MADV_DONTFORK), 0);
    return p;
}

void posting(Nic& a, Nic& b);
void errors_and_reset(Nic& a, Nic& b);
void memory(Nic& a, Nic& b);
void events(Nic& a, Nic& b);
void lifetimes(Nic& a, Nic& b);
void extended(Nic& a, Nic& b);
void capture(Nic& a, Nic& b);
void limits(Nic& a, Nic& b);
void xrc(Nic& a, Nic& b);
void mapped(Nic& a, Nic& b);
void registered(Nic& a, Nic& b);
void deferred(Nic& a, Nic& b);
void endings(Nic& a, Nic& b);
void pacing(Nic& a, Nic& b);
void cases(Nic& a, Nic& b);
void threads(Nic& a, Nic& b);
void reuse(Nic& a, Nic& b);
void forks(const char* a, const char* b);
void forks_with_receives(const char* a, const char* b);
void without_memory(const char* device);

}  // namespace rules
