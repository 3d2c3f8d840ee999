// SPDX-License-Identifier: BSD-3-Clause
// Private memory stays what it is while it is registered, whatever is done to reach it: threads that write while it is
// registered lose nothing, a child has a copy of its own, the bytes at its edges are reached like those inside.
#include <algorithm>
#include <atomic>
#include <thread>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_rules.h"

namespace rules {
namespace {

constexpr uint32_t kBytes = 200'000;
constexpr size_t kArea = 256 << 10;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

struct Area {
    uint8_t* base = static_cast<uint8_t*>(mmap(nullptr, kArea, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ~Area() { munmap(base, kArea); }
    [[nodiscard]] bool all(size_t offset, size_t length, uint8_t byte) const {
        return std::all_of(base + offset, base + offset + length, [&](uint8_t c) { return c == byte; });
    }
};

// Begins and ends in the middle of a page.
void edges(Side& a, Nic& nb) {
    const Area area;
    uint8_t* first = area.base + 40;
    ibv_mr* mr = ibv_reg_mr(nb.pd, first, kBytes, kAccess);
    RULE(mr != nullptr);
    std::fill_n(a.memory.begin(), kBytes, uint8_t{0x31});
    EQUAL(a.transfer(IBV_WR_RDMA_WRITE, first, mr->rkey, kBytes), IBV_WC_SUCCESS);
    RULE(area.all(40, kBytes, 0x31) && area.all(0, 40, 0) && area.all(40 + kBytes, 1000, 0));
    area.base[4095] = area.base[4096] = 0x32;
    first[kBytes - 1] = 0x33;
    EQUAL(a.transfer(IBV_WR_RDMA_READ, first, mr->rkey, kBytes), IBV_WC_SUCCESS);
    RULE(a.memory[4055] == 0x32 && a.memory[4056] == 0x32 && a.memory[4057] == 0x31 && a.memory[kBytes - 1] == 0x33);
    for (uint8_t* at : {first, area.base + 8192, first + kBytes - 8}) {
        uint64_t value = 1;
        std::memcpy(at, &value, sizeof value);
        EQUAL(a.transfer(IBV_WR_ATOMIC_FETCH_AND_ADD, at, mr->rkey, 8), IBV_WC_SUCCESS);
        std::memcpy(&value, at, sizeof value);
        EQUAL(value, 6);
    }
    EQUAL(ibv_dereg_mr(mr), 0);
    RULE(area.base[4096] == 0x32 && area.base[8192] == 6);
}

void child_has_a_copy(Side& a, Nic& nb) {
    const Area area;
    ibv_mr* mr = ibv_reg_mr(nb.pd, area.base, kArea, kAccess);
    RULE(mr != nullptr);
    std::fill_n(area.base, kArea, uint8_t{0x41});
    int gate[2];
    EQUAL(pipe(gate), 0);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        char go = 0;
        const bool told = read(gate[0], &go, 1) == 1;
        const bool mine = area.all(0, kArea, 0x41);
        std::fill_n(area.base, kArea, uint8_t{0x44});
        EQUAL(ibv_dereg_mr(mr), 0);
        _exit(told && mine && area.all(0, kArea, 0x44) ? 0 : 1);
    }
    std::fill_n(area.base + 50'000, 50'000, uint8_t{0x43});
    std::fill_n(a.memory.begin(), 50'000, uint8_t{0x42});
    EQUAL(a.transfer(IBV_WR_RDMA_WRITE, area.base, mr->rkey, 50'000), IBV_WC_SUCCESS);
    EQUAL(write(gate[1], "g", 1), 1);
    int status = 1;
    waitpid(child, &status, 0);
    EQUAL(status, 0);
    RULE(area.all(0, 50'000, 0x42) && area.all(50'000, 50'000, 0x43) && area.all(100'000, kArea - 100'000, 0x41));
    EQUAL(a.transfer(IBV_WR_RDMA_READ, area.base, mr->rkey, 1000), IBV_WC_SUCCESS);
    RULE(std::count(a.memory.begin(), a.memory.begin() + 1000, 0x42) == 1000);
    EQUAL(ibv_dereg_mr(mr), 0);
    close(gate[0]);
    close(gate[1]);
}

// The same memory for ever newer regions, and a thread that counts in it.
void while_written(Side& a, Nic& nb) {
    const Area area;
    std::atomic<bool> stop{false};
    uint64_t counted = 0;
    std::thread writer([&] {
        for (; !stop; ++counted) {
            auto* word = reinterpret_cast<volatile uint64_t*>(area.base + counted % 16 * 16384 + 8192);
            *word = *word + 1;
        }
    });
    for (uint8_t round = 1; round <= 6; ++round) {
        ibv_mr* mr = ibv_reg_mr(nb.pd, area.base, kArea, kAccess);
        ibv_mr* part = ibv_reg_mr(nb.pd, area.base + 4096, 65536, kAccess);
        RULE(mr != nullptr && part != nullptr);
        std::fill_n(a.memory.begin(), 4000, round);
        EQUAL(a.transfer(IBV_WR_RDMA_WRITE, area.base + 4096, part->rkey, 4000), IBV_WC_SUCCESS);
        RULE(area.all(4096, 4000, round));
        EQUAL(ibv_dereg_mr(round % 2 != 0 ? mr : part), 0);
        EQUAL(a.transfer(IBV_WR_RDMA_READ, area.base + 4096, round % 2 != 0 ? part->rkey : mr->rkey, 4000), IBV_WC_SUCCESS);
        RULE(a.memory[3999] == round);
        EQUAL(ibv_dereg_mr(round % 2 != 0 ? part : mr), 0);
    }
    stop = true;
    writer.join();
    uint64_t found = 0;
    for (size_t i = 0; i < 16; ++i) found += *reinterpret_cast<uint64_t*>(area.base + i * 16384 + 8192);
    EQUAL(found, counted);
}

// ibv_rereg_mr(3): the key goes on to other memory, and may be for reading only.
void other_memory(Side& a, Nic& nb) {
    const Area before, after;
    ibv_mr* mr = ibv_reg_mr(nb.pd, before.base, kArea, kAccess);
    RULE(mr != nullptr);
    std::fill_n(before.base, kArea, uint8_t{0x51});
    EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, after.base + 100, kBytes, 0), 0);
    std::fill_n(a.memory.begin(), kBytes, uint8_t{0x52});
    EQUAL(a.transfer(IBV_WR_RDMA_WRITE, after.base + 100, mr->rkey, kBytes), IBV_WC_SUCCESS);
    RULE(after.all(100, kBytes, 0x52) && before.all(0, kArea, 0x51));
    EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_READ), 0);
    EQUAL(a.transfer(IBV_WR_RDMA_READ, after.base + 100, mr->rkey, 4096), IBV_WC_SUCCESS);
    EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAccess), 0);
    EQUAL(a.transfer(IBV_WR_RDMA_WRITE, after.base + 4096, mr->rkey, 8192), IBV_WC_SUCCESS);
    RULE(after.all(100, kBytes, 0x52));
    EQUAL(ibv_dereg_mr(mr), 0);
    RULE(after.all(100, kBytes, 0x52) && before.all(0, kArea, 0x51));
}

}  // namespace

void registered(Nic& na, Nic& nb) {
    group = "registered";
    Side a, b;
    RULE(a.make(na, 64) && b.make(nb, 64) && connect(a, b));
    edges(a, nb);
    child_has_a_copy(a, nb);
    while_written(a, nb);
    other_memory(a, nb);
    a.destroy();
    b.destroy();
}

}  // namespace rules
