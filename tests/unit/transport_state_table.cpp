// SPDX-License-Identifier: BSD-3-Clause
// modify_qp: every pair of states and every attribute of every QP type: missing, foreign, invalid. A refused call
// changes nothing and names the attribute. IBTA volume 1, 10.3.1; ibv_modify_qp(3).
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <string>

#include "transport/qp.h"
#include "transport/qp_state_table.h"

using namespace rocemu;
using namespace rocemu::transport;
using namespace qp_attr_mask;
using enum QpState;

namespace {

constexpr QpState kStates[]{Reset, Init, Rtr, Rts, Sqd, Sqe, Err};
constexpr QpType kTypes[]{QpType::Rc, QpType::Uc, QpType::Ud, QpType::RawPacket, QpType::XrcSend, QpType::XrcRecv};
constexpr ModifyLimits kLimits{16, 32, 3};

QpAttr good(QpState to, QpState current = Reset) {
    QpAttr a;
    a.state = to;
    a.cur_state = current;
    a.path_mtu = 3;
    a.port_num = 1;
    a.ah.is_global = 1;
    a.ah.port_num = 1;
    a.rq_psn = a.sq_psn = 0xFFFFFF;
    a.dest_qpn = 0xFFFFFF;
    a.max_rd_atomic = 16;
    a.max_dest_rd_atomic = 32;
    a.timeout = a.min_rnr_timer = 31;
    a.retry_cnt = a.rnr_retry = 7;
    return a;
}

struct Fixture {
    memory::KeyTable keys;
    stats::CounterBlock counters;
    QpConfig config;
    std::unique_ptr<Qp> qp;
    Fixture() {
        config.max_rd_atomic = 16;
        config.max_dest_rd_atomic = 32;
        config.max_path_mtu = 3;
        qp = std::make_unique<Qp>(config, Environment{keys, counters});
    }
    int modify(const QpAttr& a, uint32_t mask, std::string* name = nullptr) {
        const char* bad = nullptr;
        const int r = qp->modify(a, mask, Instant{0}, &bad);
        if (name != nullptr) *name = bad == nullptr ? "" : bad;
        return r;
    }
    void to(QpState target) {
        constexpr uint32_t kInit = kState | kPkeyIndex | kPort | kAccessFlags;
        constexpr uint32_t kRtr = kState | kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer;
        constexpr uint32_t kRts = kState | kSqPsn | kTimeout | kRetryCnt | kRnrRetry | kMaxQpRdAtomic;
        REQUIRE(modify(good(Reset), kState) == 0);
        if (target == Reset) return;
        REQUIRE(modify(good(Init), kInit) == 0);
        if (target == Init) return;
        if (target == Err) {
            REQUIRE(modify(good(Err), kState) == 0);
            return;
        }
        REQUIRE(modify(good(Rtr), kRtr) == 0);
        if (target == Rtr) return;
        REQUIRE(modify(good(Rts), kRts) == 0);
        if (target == Rts) return;
        REQUIRE(modify(good(Sqd), kState) == 0);
    }
};

}  // namespace

TEST_CASE("each transition of each type: all required and optional attributes, then one missing, then one foreign",
          "[unit][transport][case26]") {
    int transitions = 0;
    for (const QpType type : kTypes)
        for (const QpState from : kStates)
            for (const QpState to : kStates) {
                const Transition* t = find_transition(type, from, to);
                const QpAttr attr = good(to, from);
                const char* bad = nullptr;
                if (t == nullptr) {
                    CHECK(check_modify(type, from, attr, kState, kLimits, &bad) == EINVAL);
                    CHECK(std::string(bad) == "qp_state");
                    continue;
                }
                ++transitions;
                CAPTURE(static_cast<int>(type), static_cast<int>(from), static_cast<int>(to));
                const uint32_t optional = t->optional & ~kAltPath;
                CHECK(check_modify(type, from, attr, kState | t->required, kLimits, &bad) == 0);
                CHECK(check_modify(type, from, attr, kState | t->required | optional, kLimits, &bad) == 0);
                for (uint32_t bit = 1; bit != 0 && bit <= kRateLimit; bit <<= 1) {
                    if (bit == kState) continue;
                    const bool allowed = (t->required | optional) & bit;
                    if (!allowed)
                        CHECK(check_modify(type, from, attr, kState | t->required | bit, kLimits, &bad) == EINVAL);
                    if (t->required & bit)
                        CHECK(check_modify(type, from, attr, (kState | t->required) & ~bit, kLimits, &bad) == EINVAL);
                }
            }
    // RC 9, UC 10, UD 10, raw 9, XRC 9 + 9, and 12 for each type.
    CHECK(transitions == 9 + 10 + 10 + 9 + 9 + 9 + 6 * 12);
}

TEST_CASE("the transitions of the man page and no others", "[unit][transport][case26]") {
    CHECK(find_transition(QpType::Rc, Reset, Err) == nullptr);
    CHECK(find_transition(QpType::Rc, Reset, Reset) != nullptr);
    CHECK(find_transition(QpType::Rc, Reset, Rtr) == nullptr);
    CHECK(find_transition(QpType::Rc, Rtr, Sqd) == nullptr);
    CHECK(find_transition(QpType::Rc, Sqe, Rts) == nullptr);
    CHECK(find_transition(QpType::Ud, Sqe, Rts) != nullptr);
    for (const QpType type : kTypes)
        for (const QpState s : kStates) {
            CHECK((find_transition(type, s, Reset) != nullptr));
            CHECK((find_transition(type, s, Err) != nullptr) == (s != Reset));
        }
}

TEST_CASE("invalid values are refused by name and change nothing", "[unit][transport][case26]") {
    struct Row {
        QpState from, to;
        uint32_t mask;
        void (*spoil)(QpAttr&);
        const char* name;
    };
    constexpr uint32_t kInit = kState | kPkeyIndex | kPort | kAccessFlags;
    constexpr uint32_t kRtr = kState | kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer;
    constexpr uint32_t kRts = kState | kSqPsn | kTimeout | kRetryCnt | kRnrRetry | kMaxQpRdAtomic;
    const Row rows[]{
        {Reset, Init, kInit, [](QpAttr& a) { a.port_num = 0; }, "port_num"},
        {Reset, Init, kInit, [](QpAttr& a) { a.port_num = 2; }, "port_num"},
        {Reset, Init, kInit, [](QpAttr& a) { a.pkey_index = 1; }, "pkey_index"},
        {Reset, Init, kInit, [](QpAttr& a) { a.access_flags = 1 << 12; }, "qp_access_flags"},
        {Reset, Init, kInit & ~kPort, [](QpAttr&) {}, "port_num"},
        {Reset, Init, kInit | kQkey, [](QpAttr&) {}, "qkey"},
        {Init, Rtr, kRtr, [](QpAttr& a) { a.ah.is_global = 0; }, "ah_attr"},
        {Init, Rtr, kRtr, [](QpAttr& a) { a.ah.sl = 8; }, "ah_attr"},
        {Init, Rtr, kRtr, [](QpAttr& a) { a.path_mtu = 0; }, "path_mtu"},
        {Init, Rtr, kRtr, [](QpAttr& a) { a.path_mtu = 4; }, "path_mtu"},
        {Init, Rtr, kRtr, [](QpAttr& a) { a.rq_psn = 1 << 24; }, "rq_psn"},
        {Init, Rtr, kRtr, [](QpAttr& a) { a.dest_qpn = 1 << 24; }, "dest_qp_num"},
        {Init, Rtr, kRtr, [](QpAttr& a) { a.max_dest_rd_atomic = 33; }, "max_dest_rd_atomic"},
        {Init, Rtr, kRtr, [](QpAttr& a) { a.min_rnr_timer = 32; }, "min_rnr_timer"},
        {Init, Rtr, kRtr | kAltPath, [](QpAttr&) {}, "alt_ah_attr"},
        {Rtr, Rts, kRts, [](QpAttr& a) { a.sq_psn = 1 << 24; }, "sq_psn"},
        {Rtr, Rts, kRts, [](QpAttr& a) { a.timeout = 32; }, "timeout"},
        {Rtr, Rts, kRts, [](QpAttr& a) { a.retry_cnt = 8; }, "retry_cnt"},
        {Rtr, Rts, kRts, [](QpAttr& a) { a.rnr_retry = 8; }, "rnr_retry"},
        {Rtr, Rts, kRts, [](QpAttr& a) { a.max_rd_atomic = 17; }, "max_rd_atomic"},
        {Rtr, Rts, kRts | kCurState, [](QpAttr& a) { a.cur_state = Init; }, "cur_qp_state"},
        {Rtr, Rts, kRts | kCap, [](QpAttr&) {}, "cap"},
        {Rts, Rts, kPathMtu, [](QpAttr&) {}, "path_mtu"},
        {Rts, Rts, kState | 1u << 30, [](QpAttr&) {}, "attr_mask"},
    };
    for (const Row& row : rows) {
        Fixture f;
        f.to(row.from);
        QpAttr before, after;
        f.qp->query(before);
        QpAttr attr = good(row.to, row.from);
        attr.access_flags = 7;
        row.spoil(attr);
        std::string name;
        CAPTURE(row.name);
        CHECK(f.modify(attr, row.mask, &name) == EINVAL);
        CHECK(name == row.name);
        f.qp->query(after);
        CHECK(std::memcmp(&before, &after, sizeof before) == 0);
    }
}

TEST_CASE("RESET to RESET, ERR to ERR, any state to ERR and back to RESET", "[unit][transport][case26]") {
    for (const QpState s : {Init, Rtr, Rts, Sqd}) {
        Fixture f;
        f.to(s);
        CHECK(f.modify(good(Err), kState) == 0);
        CHECK(f.modify(good(Err), kState) == 0);
        CHECK(f.modify(good(Rts), kState) == EINVAL);
        CHECK(f.modify(good(Reset), kState) == 0);
        CHECK(f.modify(good(Reset), kState) == 0);
        CHECK(f.qp->state() == Reset);
        f.to(Rts);
    }
    Fixture f;
    CHECK(f.modify(good(Err), kState) == EINVAL);
}

TEST_CASE("attributes may change without a new state", "[unit][transport]") {
    Fixture f;
    f.to(Rts);
    QpAttr a;
    a.min_rnr_timer = 5;
    a.access_flags = 2;
    CHECK(f.modify(a, kMinRnrTimer | kAccessFlags) == 0);
    CHECK(f.qp->attr().min_rnr_timer == 5);
    CHECK(f.qp->attr().access_flags == 2);
    CHECK(f.qp->state() == Rts);
}
