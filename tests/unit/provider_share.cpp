// SPDX-License-Identifier: BSD-3-Clause
// Memory that becomes shared while it is registered: writers lose nothing, what is converted and what is not, overlapping
// regions, memory that is freed or moved first, nothing is left behind.
#include "provider_share.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include <alloca.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

using namespace share_test;

TEST_CASE("threads that write meanwhile lose nothing", "[share]") {
    NEEDS_USERFAULTFD();
    constexpr size_t kPages = 96;
    constexpr int kWriters = 2, kRounds = 12;
    const Memory memory(kPages);
    std::atomic<bool> stop{false};
    std::atomic<int> running{0};
    uint64_t made[kWriters] = {};
    std::vector<std::thread> writers;
    for (int w = 0; w < kWriters; ++w)
        writers.emplace_back([&, w] {
            // Each its own words, with no atomic: what is lost stays lost.
            for (uint64_t n = 0; !stop; ++n) {
                auto* word = reinterpret_cast<volatile uint64_t*>(memory.base + n % kPages * kPage + 8 * static_cast<size_t>(w));
                *word = *word + 1;
                ++made[w];
                if (n == kPages) ++running;
            }
        });
    while (running != kWriters) std::this_thread::yield();
    Share share;
    for (int round = 0; round < kRounds; ++round) {
        const auto r = share.add(memory.va(), memory.bytes(), true, true);
        CHECK(r.error == 0);
        CHECK(r.mapped == SharedPart{memory.va(), memory.bytes(), r.mapped.offset});
        CHECK(kind_of(memory.va(), memory.bytes()) == "shared");
        share.remove(r.id);
        CHECK(kind_of(memory.va(), memory.bytes()) == "private");
        CHECK(count_mappings(memory.va(), memory.bytes()) == 1);  // not one a window
    }
    stop = true;
    for (auto& writer : writers) writer.join();
    for (int w = 0; w < kWriters; ++w) {
        uint64_t found = 0;
        for (size_t page = 0; page < kPages; ++page)
            found += *reinterpret_cast<uint64_t*>(memory.base + page * kPage + 8 * static_cast<size_t>(w));
        CHECK(found == made[w]);
    }
}

TEST_CASE("the daemon finds the memory in the file", "[share]") {
    NEEDS_USERFAULTFD();
    const Memory memory(40);
    for (size_t i = 0; i < memory.bytes(); i += 8) memory.put(i, i);
    memory.zero(8 * kPage, 8 * kPage);
    Share share;
    const auto r = share.add(memory.va(), memory.bytes(), true, true);
    REQUIRE(r.mapped.bytes == memory.bytes());
    struct stat st{};
    CHECK(fstat(r.file.fd, &st) == 0);
    CHECK(static_cast<uint64_t>(st.st_blocks) * 512 <= 32 * kPage);  // pages of zeros take no memory
    // Its own mapping, as the daemon makes it.
    void* other = mmap(nullptr, memory.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, r.file.fd, static_cast<off_t>(r.mapped.offset));
    REQUIRE(other != MAP_FAILED);
    CHECK(std::memcmp(other, memory.base, memory.bytes()) == 0);
    static_cast<char*>(other)[5 * kPage + 3] = 0x77;
    CHECK(memory.base[5 * kPage + 3] == 0x77);
    CHECK(ftruncate(r.file.fd, 0) != 0);
    share.remove(r.id);
    CHECK(memory.base[5 * kPage + 3] == 0x77);
    CHECK(memory.get(39 * kPage) == 39 * kPage);
    // What the daemon may still have is no part of the program any more.
    static_cast<char*>(other)[5 * kPage + 3] = 0x11;
    CHECK(memory.base[5 * kPage + 3] == 0x77);
    munmap(other, memory.bytes());
}

TEST_CASE("whole pages inside the region only", "[share]") {
    NEEDS_USERFAULTFD();
    const Memory memory(8);
    Share share;
    const auto r = share.add(memory.va() + 16, 5 * kPage, true, true);
    CHECK(r.error == 0);
    CHECK(r.mapped == SharedPart{memory.va() + kPage, 4 * kPage, r.mapped.offset});
    CHECK(kind_of(memory.va(), kPage) == "private");
    CHECK(kind_of(memory.va() + kPage, 4 * kPage) == "shared");
    CHECK(kind_of(memory.va() + 5 * kPage, 3 * kPage) == "private");
    // Less than a page has none; no length, the end of all addresses and everything do no harm.
    const auto small = share.add(memory.va() + 6 * kPage + 1, kPage, true, true);
    CHECK((small.mapped.bytes == 0 && small.error == 0));
    CHECK(share.add(memory.va(), 0, true, true).id == 0);
    const auto everything = share.add(0, ~uint64_t{0}, false, true);
    CHECK(everything.mapped.bytes == 4 * kPage);
    // Where another registration reaches by address nothing is converted.
    const auto after = share.add(memory.va() + 5 * kPage, 3 * kPage, true, true);
    CHECK((after.mapped.bytes == 0 && after.error == EOPNOTSUPP));
    for (const auto& registration : {r, small, everything, after}) share.remove(registration.id);
    CHECK(kind_of(memory.va(), memory.bytes()) == "private");
}

TEST_CASE("regions that overlap, ended in either order", "[share]") {
    NEEDS_USERFAULTFD();
    const Memory memory(64);
    Share share;
    for (const bool first_first : {true, false}) {
        memory.put(0, 1);
        memory.put(40 * kPage, 2);
        const auto a = share.add(memory.va(), 40 * kPage, true, true);
        const auto same = share.add(memory.va() + 10 * kPage, 10 * kPage, true, true);
        CHECK(same.mapped == SharedPart{memory.va() + 10 * kPage, 10 * kPage, a.mapped.offset + 10 * kPage});
        // The larger part of it is mapped: it lies in two places of the file.
        const auto b = share.add(memory.va() + 30 * kPage, 34 * kPage, true, true);
        CHECK(b.mapped.va == memory.va() + 40 * kPage);
        CHECK(b.mapped.bytes == 24 * kPage);
        CHECK(kind_of(memory.va(), memory.bytes()) == "shared");
        share.remove(first_first ? a.id : b.id);
        memory.put(35 * kPage, 3);
        if (first_first) {
            CHECK(kind_of(memory.va(), 10 * kPage) == "private");
            CHECK(kind_of(memory.va() + 10 * kPage, 10 * kPage) == "shared");
            CHECK(kind_of(memory.va() + 20 * kPage, 10 * kPage) == "private");
            CHECK(kind_of(memory.va() + 30 * kPage, 34 * kPage) == "shared");
        } else {
            CHECK(kind_of(memory.va(), 40 * kPage) == "shared");
            CHECK(kind_of(memory.va() + 40 * kPage, 24 * kPage) == "private");
        }
        share.remove(same.id);
        share.remove(first_first ? b.id : a.id);
        share.remove(a.id);  // a second time
        CHECK(kind_of(memory.va(), memory.bytes()) == "private");
        CHECK((memory.get(0) == 1 && memory.get(35 * kPage) == 3 && memory.get(40 * kPage) == 2));
    }
    CHECK(blocks_of_file() == 0);
}

TEST_CASE("memory that is freed before its registration ends", "[share]") {
    NEEDS_USERFAULTFD();
    Share share;
    Memory memory(16);
    memory.put(0, 1);
    const auto old = share.add(memory.va(), memory.bytes(), true, true);
    void* daemons = mmap(nullptr, memory.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, old.file.fd, static_cast<off_t>(old.mapped.offset));
    REQUIRE(daemons != MAP_FAILED);
    // All of it, and the middle of it, is other memory now: at the same address, registered too.
    for (const size_t skip : {size_t{0}, size_t{4}}) {
        void* at = memory.base + skip * kPage;
        REQUIRE(mmap(at, memory.bytes() - 2 * skip * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
        memory.put(5 * kPage, 7);
        const auto fresh = share.add(memory.va(), memory.bytes(), true, true);
        CHECK(fresh.mapped.bytes == 0);
        std::memset(daemons, 0x55, memory.bytes());
        CHECK(memory.get(5 * kPage) == 7);
        share.remove(fresh.id);
        CHECK(memory.get(5 * kPage) == 7);
    }
    share.remove(old.id);
    CHECK(memory.get(5 * kPage) == 7);
    CHECK(kind_of(memory.va(), memory.bytes()) == "private");
    const auto again = share.add(memory.va(), memory.bytes(), true, true);
    CHECK(again.mapped.bytes == memory.bytes());
    CHECK(memory.get(5 * kPage) == 7);
    CHECK(memory.get(6 * kPage) == 0);
    // Nothing at all is there any more.
    munmap(memory.base, memory.bytes());
    share.remove(again.id);
    CHECK(kind_of(memory.va(), memory.bytes()) == "");
    munmap(daemons, memory.bytes());
    CHECK(blocks_of_file() == 0);
    memory.forget();
}

TEST_CASE("memory that is moved or made longer meanwhile", "[share]") {
    NEEDS_USERFAULTFD();
    Share share;
    Memory memory(16);
    const Memory neighbour(16);
    memory.put(3 * kPage, 9);
    neighbour.put(0, 11);
    const auto r = share.add(memory.va(), memory.bytes(), true, true);
    const auto other = share.add(neighbour.va(), neighbour.bytes(), true, true);
    void* moved = mremap(memory.base, memory.bytes(), 4 * memory.bytes(), MREMAP_MAYMOVE);
    REQUIRE(moved != MAP_FAILED);
    memory.forget();
    const Memory longer(static_cast<char*>(moved), 64);
    CHECK(longer.get(3 * kPage) == 9);
    CHECK(longer.get(40 * kPage) == 0);
    longer.put(40 * kPage, 13);
    CHECK(neighbour.get(0) == 11);
    share.remove(r.id);
    CHECK(kind_of(longer.va(), longer.bytes()) == "private");
    CHECK((longer.get(3 * kPage) == 9 && longer.get(40 * kPage) == 13));
    share.remove(other.id);
    CHECK(blocks_of_file() == 0);
}

TEST_CASE("read-only memory stays read-only", "[share]") {
    NEEDS_USERFAULTFD();
    const Memory memory(8);
    memory.put(0, 5);
    mprotect(memory.base, memory.bytes(), PROT_READ);
    Share share;
    // What the program may not write the daemon may not either.
    const auto writable = share.add(memory.va(), memory.bytes(), true, true);
    CHECK((writable.mapped.bytes == 0 && writable.error == EOPNOTSUPP));
    share.remove(writable.id);
    const auto r = share.add(memory.va(), memory.bytes(), true, false);
    CHECK(r.mapped.bytes == memory.bytes());
    CHECK(kind_of(memory.va(), memory.bytes()) == "shared read-only");
    const auto both = share.add(memory.va(), memory.bytes(), true, true);
    CHECK(both.mapped.bytes == 0);
    share.remove(r.id);
    share.remove(both.id);
    CHECK(kind_of(memory.va(), memory.bytes()) == "private read-only");
    CHECK(memory.get(0) == 5);
}

TEST_CASE("a region over memory of several kinds", "[share]") {
    NEEDS_USERFAULTFD();
    const Memory memory(40);
    const int fd = memfd_create("share_test", MFD_CLOEXEC);
    REQUIRE(ftruncate(fd, 4 * kPage) == 0);
    // 0: plain, 4: a file, 8: plain, 20: read-only, 24: locked, 28: not for children, 32: plain
    REQUIRE(mmap(memory.base + 4 * kPage, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) != MAP_FAILED);
    for (size_t page = 0; page < 40; ++page) memory.put(page * kPage, page);
    mprotect(memory.base + 20 * kPage, 4 * kPage, PROT_READ);
    REQUIRE(syscall(SYS_mlock, memory.base + 24 * kPage, 4 * kPage) == 0);  // mlock() does nothing under a sanitizer
    madvise(memory.base + 28 * kPage, 4 * kPage, MADV_DONTFORK);
    Share share;
    const auto r = share.add(memory.va(), memory.bytes(), true, true);
    CHECK(r.error == EOPNOTSUPP);
    CHECK(r.mapped.va == memory.va() + 8 * kPage);
    CHECK(r.mapped.bytes == 12 * kPage);
    const char* kinds[] = {"shared", "private file", "shared", "shared", "shared", "private read-only", "private", "private", "shared", "shared"};
    for (size_t i = 0; i < 10; ++i) CHECK(kind_of(memory.va() + 4 * i * kPage, 4 * kPage) == kinds[i]);
    share.remove(r.id);
    for (size_t page = 0; page < 40; ++page) CHECK(memory.get(page * kPage) == page);
    CHECK(kind_of(memory.va() + 8 * kPage, 12 * kPage) == "private");
    close(fd);
}

// brk moves over what was converted: down, which takes it away while it is registered, and up again, which brings zeros.
// In a thread, whose allocations are in an arena of their own.
void move_brk() {
    Share share;
    const auto moved = [](intptr_t pages) { return static_cast<char*>(sbrk(pages * static_cast<intptr_t>(kPage))); };
    sbrk(static_cast<intptr_t>(-reinterpret_cast<uint64_t>(sbrk(0)) % kPage));
    char* const heap = moved(16);
    CHECK(heap != reinterpret_cast<char*>(-1));
    const auto va = reinterpret_cast<uint64_t>(heap);
    std::memset(heap, 7, 16 * kPage);
    const auto low = share.add(va, 4 * kPage, true, true);
    const auto high = share.add(va + 8 * kPage, 8 * kPage, true, true);
    CHECK((low.mapped.bytes == 4 * kPage && low.error == 0));
    CHECK((high.mapped.bytes == 8 * kPage && high.error == 0));
    CHECK(kind_of(va + 4 * kPage, 4 * kPage) == "private");
    CHECK(moved(-6) == heap + 16 * kPage);
    CHECK(kind_of(va + 8 * kPage, 2 * kPage) == "shared");
    CHECK(moved(16) == heap + 10 * kPage);
    CHECK(kind_of(va + 10 * kPage, 16 * kPage) == "private");
    size_t wrong = 0;
    for (size_t i = 0; i < 26 * kPage; ++i) wrong += heap[i] != (i < 10 * kPage ? 7 : 0);
    CHECK(wrong == 0);
    std::memset(heap + 10 * kPage, 9, 16 * kPage);
    share.remove(low.id);
    share.remove(high.id);
    CHECK(kind_of(va, 26 * kPage) == "private");
    for (size_t i = 0; i < 26 * kPage; ++i) wrong += heap[i] != (i < 10 * kPage ? 7 : 9);
    CHECK(wrong == 0);
    CHECK(moved(-26) == heap + 26 * kPage);
}

TEST_CASE("the heap, and brk around what is registered of it", "[share]") {
    NEEDS_USERFAULTFD();
    std::thread(move_brk).join();
}

TEST_CASE("no stack", "[share]") {
    NEEDS_USERFAULTFD();
    Share share;
    const auto stack = [&share] {
        // Not an array: AddressSanitizer has stacks of its own for those.
        void* here = alloca(8 * kPage);
        const auto r = share.add(reinterpret_cast<uint64_t>(here), 8 * kPage, true, true);
        CHECK((r.mapped.bytes == 0 && r.error == EOPNOTSUPP));
        share.remove(r.id);
    };
    stack();
    std::thread(stack).join();
}

TEST_CASE("registered and deregistered many times: nothing is left", "[share]") {
    NEEDS_USERFAULTFD();
    const Memory memory(48);
    Share share;
    const auto once = [&](uint64_t i) {
        const auto r = share.add(memory.va() + i % 3 * kPage, (40 + i % 5) * kPage, true, true);
        CHECK(r.mapped.bytes != 0);
        memory.put(7 * kPage, i);
        share.remove(r.id);
        CHECK(memory.get(7 * kPage) == i);
    };
    for (uint64_t i = 0; i < 15; ++i) once(i);
    // Where mmap puts things; not where AddressSanitizer has its heap, which grows.
    constexpr uint64_t kMmapArea = 0x7000'0000'0000;
    const size_t mappings = count_mappings(kMmapArea), descriptors = count_descriptors();
    for (uint64_t i = 0; i < 150; ++i) once(i);
    CHECK(count_mappings(kMmapArea) <= mappings);
    CHECK(count_descriptors() == descriptors);
    CHECK(blocks_of_file() == 0);
}

TEST_CASE("what the program asked of the memory meanwhile stays", "[share]") {
    NEEDS_USERFAULTFD();
    const Memory memory(8);
    Share share;
    const auto r = share.add(memory.va(), memory.bytes(), true, true);
    madvise(memory.base, memory.bytes(), MADV_DONTFORK);
    madvise(memory.base, memory.bytes(), MADV_DONTDUMP);
    mprotect(memory.base, 4 * kPage, PROT_READ);
    share.remove(r.id);
    CHECK(kind_of(memory.va(), 4 * kPage) == "private read-only");
    CHECK(kind_of(memory.va() + 4 * kPage, 4 * kPage) == "private");
    CHECK(has_flags(memory.va(), "dc dd"));
    CHECK(has_flags(memory.va() + 4 * kPage, "dc dd"));
}

TEST_CASE("a program that closes descriptors which are not its own", "[share]") {
    NEEDS_USERFAULTFD();
    const Memory memory(8), more(8);
    memory.put(0, 3);
    Share share;
    const auto r = share.add(memory.va(), memory.bytes(), true, true);
    close(r.file.fd);
    // Another file has the number now.
    const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    REQUIRE(dup2(fd, r.file.fd) == r.file.fd);
    const auto refused = share.add(more.va(), more.bytes(), true, true);
    CHECK((refused.error == EBADF && refused.mapped.bytes == 0));
    const auto again = share.add(memory.va(), memory.bytes(), true, true);
    CHECK(again.mapped.bytes == 0);
    share.remove(refused.id);
    share.remove(again.id);
    share.remove(r.id);
    CHECK(kind_of(memory.va(), memory.bytes()) == "private");
    CHECK(memory.get(0) == 3);
    close(r.file.fd);
    close(fd);
}
