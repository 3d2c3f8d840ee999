// SPDX-License-Identifier: BSD-3-Clause
// Memory windows in the key table: what may be bound to what, who reaches what, how a binding ends.
// Read IBTA volume 1, 10.6.6 and 10.6.7.
#include <catch2/catch.hpp>

#include "base/verbs_types.h"
#include "memory/key_table.h"

using namespace rocemu;
using namespace rocemu::memory;

namespace {

constexpr uint32_t kPd = 3, kQpn = 0x11;
constexpr uint32_t kRegion = 0x101, kWindow = 0x201, kWindow1 = 0x301;
constexpr uint32_t kAll = access_flags::kLocalWrite | access_flags::kRemoteWrite | access_flags::kRemoteRead |
                          access_flags::kRemoteAtomic | access_flags::kMwBind;

struct Table {
    KeyTable keys;

    Table() {
        region(kRegion, kPd, kAll);
        window(kWindow, KeyKind::WindowType2);
        window(kWindow1, KeyKind::WindowType1);
    }
    void region(uint32_t key, uint32_t pd, uint32_t access) {
        Region r;
        r.key = key;
        r.pd = pd;
        r.access = access;
        r.iova = 0x1000;
        r.va = 0x70001000;
        r.length = 0x2000;
        r.space = 5;
        keys.insert(r);
    }
    void window(uint32_t key, KeyKind kind) {
        Region r;
        r.key = key;
        r.pd = kPd;
        r.kind = kind;
        keys.insert(r);
    }
    static WindowBind request(uint32_t key) {
        return {key, kRegion, kPd, kQpn, access_flags::kRemoteWrite, 0x1800, 0x800};
    }
    KeyStatus reach(uint32_t key, uint64_t addr, uint32_t length, uint32_t need, uint32_t qpn = kQpn) {
        Segment s;
        const KeyStatus status = keys.resolve_remote(key, kPd, qpn, addr, length, need, s);
        if (status == KeyStatus::Ok) segment = s;
        return status;
    }
    Segment segment{};
};

}  // namespace

TEST_CASE("a window reaches what it is bound to, while it is bound", "[memory][10.6.7.2]") {
    Table t;
    CHECK(t.reach(kWindow, 0x1800, 4, access_flags::kRemoteWrite) == KeyStatus::NoSuchKey);
    REQUIRE(t.keys.bind(Table::request(0x202)));
    CHECK(t.reach(kWindow, 0x1800, 4, access_flags::kRemoteWrite) == KeyStatus::NoSuchKey);  // the old key
    CHECK(t.reach(0x202, 0x1ffc, 4, access_flags::kRemoteWrite) == KeyStatus::Ok);
    CHECK(t.segment.va == 0x70001ffc);
    CHECK(t.segment.space == 5);
    CHECK(t.reach(0x202, 0x17ff, 4, access_flags::kRemoteWrite) == KeyStatus::OutOfBounds);
    CHECK(t.reach(0x202, 0x1ffd, 4, access_flags::kRemoteWrite) == KeyStatus::OutOfBounds);
    CHECK(t.reach(0x202, 0x1800, 4, access_flags::kRemoteRead) == KeyStatus::AccessDenied);
    Segment s;
    CHECK(t.keys.resolve_remote(0x202, kPd + 1, kQpn, 0x1800, 4, access_flags::kRemoteWrite, s) == KeyStatus::WrongPd);
    // It is no lkey.
    CHECK(t.keys.resolve(0x202, kPd, 0x1800, 4, 0, s) == KeyStatus::NoSuchKey);
}

TEST_CASE("a window of type 2 belongs to a QP, one of type 1 to the PD", "[memory][10.6.7.2]") {
    Table t;
    REQUIRE(t.keys.bind(Table::request(0x202)));
    CHECK(t.reach(0x202, 0x1800, 4, access_flags::kRemoteWrite, kQpn + 1) == KeyStatus::NoSuchKey);
    REQUIRE(t.keys.bind(Table::request(0x302)));
    CHECK(t.reach(0x302, 0x1800, 4, access_flags::kRemoteWrite, kQpn + 1) == KeyStatus::Ok);
    CHECK(t.keys.is_bound(Table::request(0x302)));
}

TEST_CASE("zero-based addresses in a window of type 2", "[memory][10.6.7.2]") {
    Table t;
    WindowBind b = Table::request(0x202);
    b.access |= access_flags::kZeroBased;
    REQUIRE(t.keys.bind(b));
    CHECK(t.reach(0x202, 0, 4, access_flags::kRemoteWrite) == KeyStatus::Ok);
    CHECK(t.segment.va == 0x70001800);
    CHECK(t.reach(0x202, 0x7fd, 4, access_flags::kRemoteWrite) == KeyStatus::OutOfBounds);
    b.key = 0x302;
    CHECK_FALSE(t.keys.bind(b));
}

TEST_CASE("binds against the rules change nothing", "[memory][10.6.7.2]") {
    Table t;
    t.region(0x401, kPd, kAll & ~access_flags::kMwBind);
    t.region(0x501, kPd + 1, kAll);
    t.region(0x601, kPd, access_flags::kMwBind | access_flags::kRemoteRead);
    const auto refused = [&](auto change) {
        WindowBind b = Table::request(0x202);
        change(b);
        const bool bound = t.keys.bind(b);
        return !bound && t.reach(0x202, 0x1800, 4, 0) == KeyStatus::NoSuchKey;
    };
    CHECK(refused([](WindowBind& b) { b.region = 0x401; }));
    CHECK(refused([](WindowBind& b) { b.region = 0x501; }));
    CHECK(refused([](WindowBind& b) { b.region = 0x601; }));
    CHECK(refused([](WindowBind& b) { b.region = 0x999; }));
    CHECK(refused([](WindowBind& b) { b.region = kWindow1; }));
    CHECK(refused([](WindowBind& b) { b.pd = kPd + 1; }));
    CHECK(refused([](WindowBind& b) { b.length = 0x801 + 0x1000; }));
    CHECK(refused([](WindowBind& b) { b.addr = 0xfff; }));
    CHECK(refused([](WindowBind& b) { b.length = ~uint64_t{0}; }));
    CHECK(refused([](WindowBind& b) { b.length = 0; }));
    CHECK(refused([](WindowBind& b) { b.access = access_flags::kMwBind; }));
    CHECK(refused([](WindowBind& b) { b.key = kRegion; }));
    CHECK(refused([](WindowBind& b) { b.key = 0x77777701; }));
    // Reading needs no right of the owner to write.
    WindowBind b = Table::request(0x202);
    b.region = 0x601;
    b.access = access_flags::kRemoteRead;
    CHECK(t.keys.bind(b));
    // Bound already: not again before it was invalidated.
    CHECK_FALSE(t.keys.bind(Table::request(0x203)));
}

TEST_CASE("a window of type 1 is bound again, and unbound by a length of 0", "[memory][10.6.7.2]") {
    Table t;
    REQUIRE(t.keys.bind(Table::request(0x302)));
    REQUIRE(t.keys.bind(Table::request(0x303)));
    CHECK(t.reach(0x302, 0x1800, 4, 0) == KeyStatus::NoSuchKey);
    CHECK(t.reach(0x303, 0x1800, 4, 0) == KeyStatus::Ok);
    WindowBind none = Table::request(0x304);
    none.length = 0;
    none.region = 0;
    REQUIRE(t.keys.bind(none));
    CHECK(t.keys.is_bound(none));
    CHECK(t.reach(0x304, 0x1800, 4, 0) == KeyStatus::NoSuchKey);
    CHECK(t.keys.find(kRegion)->windows == 0);
}

TEST_CASE("invalidation ends a binding of type 2, of the QP that has it", "[memory][case24][10.6.6]") {
    Table t;
    CHECK_FALSE(t.keys.invalidate(kWindow, kPd, kQpn));  // not bound
    CHECK_FALSE(t.keys.invalidate(kRegion, kPd, kQpn));
    REQUIRE(t.keys.bind(Table::request(0x302)));
    CHECK_FALSE(t.keys.invalidate(0x302, kPd, kQpn));  // type 1
    REQUIRE(t.keys.bind(Table::request(0x202)));
    CHECK_FALSE(t.keys.invalidate(0x202, kPd, kQpn + 1));
    CHECK_FALSE(t.keys.invalidate(0x202, kPd + 1, kQpn));
    CHECK(t.keys.invalidate(0x202, kPd, kQpn));
    CHECK(t.reach(0x202, 0x1800, 4, 0) == KeyStatus::NoSuchKey);
    CHECK_FALSE(t.keys.invalidate(0x202, kPd, kQpn));
    // The same key byte once more is as good as another.
    CHECK(t.keys.bind(Table::request(0x202)));
    CHECK(t.reach(0x202, 0x1800, 4, 0) == KeyStatus::Ok);
}

TEST_CASE("bindings end with the region, the window and the QP", "[memory][10.6.7.2]") {
    Table t;
    REQUIRE(t.keys.bind(Table::request(0x202)));
    REQUIRE(t.keys.bind(Table::request(0x302)));
    CHECK(t.keys.find(kRegion)->windows == 2);
    SECTION("region") {
        CHECK(t.keys.remove(kRegion));
        CHECK(t.reach(0x202, 0x1800, 4, 0) == KeyStatus::NoSuchKey);
        CHECK(t.reach(0x302, 0x1800, 4, 0) == KeyStatus::NoSuchKey);
        CHECK(t.keys.remove_window(kWindow));
    }
    SECTION("window, by the key it was allocated with") {
        CHECK_FALSE(t.keys.remove_window(kRegion));
        CHECK(t.keys.remove_window(kWindow));
        CHECK_FALSE(t.keys.remove_window(kWindow));
        CHECK(t.reach(0x202, 0x1800, 4, 0) == KeyStatus::NoSuchKey);
        CHECK(t.keys.find(kRegion)->windows == 1);
    }
    SECTION("QP") {
        t.keys.unbind_all_of(kQpn);
        CHECK(t.reach(0x202, 0x1800, 4, 0) == KeyStatus::NoSuchKey);
        CHECK(t.reach(0x302, 0x1800, 4, 0) == KeyStatus::Ok);
        CHECK(t.keys.find(kRegion)->windows == 1);
    }
}
