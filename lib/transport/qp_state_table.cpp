// SPDX-License-Identifier: BSD-3-Clause
// The table itself, and the checks of masks and values. See qp_state_table.h.
#include "transport/qp_state_table.h"

#include <array>
#include <cerrno>
#include <span>

#include "base/psn.h"

namespace rocemu::transport {

namespace {

using namespace qp_attr_mask;
using enum QpState;

// Short names for attributes that always come together.
constexpr uint32_t kInitConnected = kPkeyIndex | kPort | kAccessFlags;
constexpr uint32_t kInitUd = kPkeyIndex | kPort | kQkey;
constexpr uint32_t kPath = kAv | kPathMtu | kDestQpn | kRqPsn;
constexpr uint32_t kResponder = kMaxDestRdAtomic | kMinRnrTimer;
constexpr uint32_t kRequester = kTimeout | kRetryCnt | kRnrRetry | kMaxQpRdAtomic;
// May change while data flows. The manual page has the rate limit for raw packet QPs; here every send queue may have one.
constexpr uint32_t kLive = kCurState | kAltPath | kAccessFlags | kPathMigState | kRateLimit;
constexpr uint32_t kLiveTarget = kLive & ~kRateLimit;  // an XRC target sends no requests
constexpr uint32_t kRtrOptional = kAltPath | kAccessFlags | kPkeyIndex;
constexpr uint32_t kSqdUc = kAv | kAltPath | kAccessFlags | kPkeyIndex | kPathMigState;
constexpr uint32_t kSqdRc = kSqdUc | kPort | kRequester | kResponder;
constexpr uint32_t kNotify = kEnSqdAsyncNotify;

constexpr Transition kRc[]{
    {Reset, Reset, 0, 0},
    {Reset, Init, kInitConnected, 0},
    {Init, Init, 0, kInitConnected},
    {Init, Rtr, kPath | kResponder, kRtrOptional},
    {Rtr, Rts, kSqPsn | kRequester, kLive | kMinRnrTimer},
    {Rts, Rts, 0, kLive | kMinRnrTimer},
    {Rts, Sqd, 0, kNotify},
    {Sqd, Rts, 0, kLive | kMinRnrTimer},
    {Sqd, Sqd, 0, kSqdRc},
};
constexpr Transition kUc[]{
    {Reset, Reset, 0, 0},
    {Reset, Init, kInitConnected, 0},
    {Init, Init, 0, kInitConnected},
    {Init, Rtr, kPath, kRtrOptional},
    {Rtr, Rts, kSqPsn, kLive},
    {Rts, Rts, 0, kLive},
    {Rts, Sqd, 0, kNotify},
    {Sqd, Rts, 0, kLive},
    {Sqd, Sqd, 0, kSqdUc},
    {Sqe, Rts, 0, kCurState | kAccessFlags},
};
constexpr Transition kUd[]{
    {Reset, Reset, 0, 0},
    {Reset, Init, kInitUd, 0},
    {Init, Init, 0, kInitUd},
    {Init, Rtr, 0, kPkeyIndex | kQkey},
    {Rtr, Rts, kSqPsn, kCurState | kQkey | kRateLimit},
    {Rts, Rts, 0, kCurState | kQkey | kRateLimit},
    {Rts, Sqd, 0, kNotify},
    {Sqd, Rts, 0, kCurState | kQkey | kRateLimit},
    {Sqd, Sqd, 0, kPkeyIndex | kQkey},
    {Sqe, Rts, 0, kCurState | kQkey},
};
// DEVIATION: the manual page has no responder attributes for an initiator and no requester attributes for a target. perftest
// gives both halves all of them; what the other half has no use for is taken and kept.
constexpr Transition kXrcSend[]{
    {Reset, Reset, 0, 0},
    {Reset, Init, kInitConnected, 0},
    {Init, Init, 0, kInitConnected},
    {Init, Rtr, kPath, kRtrOptional | kResponder},
    {Rtr, Rts, kSqPsn | kRequester, kLive | kMinRnrTimer},
    {Rts, Rts, 0, kLive},
    {Rts, Sqd, 0, kNotify},
    {Sqd, Rts, 0, kLive},
    {Sqd, Sqd, 0, kSqdUc | kPort | kRequester},
};
constexpr Transition kXrcRecv[]{
    {Reset, Reset, 0, 0},
    {Reset, Init, kInitConnected, 0},
    {Init, Init, 0, kInitConnected},
    {Init, Rtr, kPath | kResponder, kRtrOptional},
    {Rtr, Rts, kSqPsn | kTimeout, kLiveTarget | kMinRnrTimer | kRequester},
    {Rts, Rts, 0, kLiveTarget | kMinRnrTimer},
    {Rts, Sqd, 0, kNotify},
    {Sqd, Rts, 0, kLiveTarget | kMinRnrTimer},
    {Sqd, Sqd, 0, kSqdUc | kPort | kTimeout | kResponder},
};
constexpr Transition kRaw[]{
    {Reset, Reset, 0, 0},   {Reset, Init, kPort, 0},   {Init, Init, 0, kPort},
    {Init, Rtr, 0, 0},      {Rtr, Rts, 0, kRateLimit}, {Rts, Rts, 0, kRateLimit},
    {Rts, Sqd, 0, kNotify}, {Sqd, Rts, 0, kRateLimit}, {Sqe, Rts, 0, 0},
};
// From any other state a QP can be reset or put into ERR; RESET to ERR is not a transition (as in Linux).
constexpr Transition kAnyState[]{
    {Init, Reset, 0, 0}, {Rtr, Reset, 0, 0}, {Rts, Reset, 0, 0}, {Sqd, Reset, 0, 0},
    {Sqe, Reset, 0, 0},  {Err, Reset, 0, 0}, {Init, Err, 0, 0},  {Rtr, Err, 0, 0},
    {Rts, Err, 0, 0},    {Sqd, Err, 0, 0},   {Sqe, Err, 0, 0},   {Err, Err, 0, 0},
};

std::span<const Transition> rows_of(QpType type) {
    switch (type) {
        case QpType::Rc:
            return kRc;
        case QpType::Uc:
            return kUc;
        case QpType::Ud:
            return kUd;
        case QpType::RawPacket:
            return kRaw;
        case QpType::XrcSend:
            return kXrcSend;
        case QpType::XrcRecv:
            return kXrcRecv;
    }
    return {};
}

struct AttrName {
    uint32_t bit;
    const char* name;
};
constexpr AttrName kNames[]{
    {kState, "qp_state"},
    {kCurState, "cur_qp_state"},
    {kEnSqdAsyncNotify, "en_sqd_async_notify"},
    {kAccessFlags, "qp_access_flags"},
    {kPkeyIndex, "pkey_index"},
    {kPort, "port_num"},
    {kQkey, "qkey"},
    {kAv, "ah_attr"},
    {kPathMtu, "path_mtu"},
    {kTimeout, "timeout"},
    {kRetryCnt, "retry_cnt"},
    {kRnrRetry, "rnr_retry"},
    {kRqPsn, "rq_psn"},
    {kMaxQpRdAtomic, "max_rd_atomic"},
    {kAltPath, "alt_ah_attr"},
    {kMinRnrTimer, "min_rnr_timer"},
    {kSqPsn, "sq_psn"},
    {kMaxDestRdAtomic, "max_dest_rd_atomic"},
    {kPathMigState, "path_mig_state"},
    {kCap, "cap"},
    {kDestQpn, "dest_qp_num"},
    {kRateLimit, "rate_limit"},
};

// The name of the lowest attribute in `mask`.
const char* name_of(uint32_t mask) {
    for (const AttrName& n : kNames)
        if (mask & n.bit) return n.name;
    return "attr_mask";
}

constexpr uint32_t kKnownAccess = access_flags::kLocalWrite | access_flags::kRemoteWrite | access_flags::kRemoteRead |
                                  access_flags::kRemoteAtomic | access_flags::kMwBind |
                                  access_flags::kOnDemand | access_flags::kHugetlb;  // programs hand on a region's

// The bit of the first attribute whose value is not allowed; 0: all are.
uint32_t invalid_value(const QpAttr& a, uint32_t mask, QpState current, const ModifyLimits& limits) {
    const auto bad = [&](uint32_t bit, bool wrong) { return (mask & bit) && wrong; };
    if (bad(kCurState, a.cur_state != current)) return kCurState;
    if (bad(kAccessFlags, (a.access_flags & ~kKnownAccess) != 0)) return kAccessFlags;
    if (bad(kPkeyIndex, a.pkey_index != 0)) return kPkeyIndex;  // only the default P_Key exists
    if (bad(kPort, a.port_num != 1)) return kPort;
    // RoCE has no LIDs: without a GID nobody can be addressed. SL 8 to 15 does not exist on Ethernet (A16).
    if (bad(kAv, a.ah.is_global == 0 || a.ah.port_num > 1 || a.ah.sl > 7)) return kAv;
    if (bad(kPathMtu, a.path_mtu < 1 || a.path_mtu > limits.max_path_mtu)) return kPathMtu;
    if (bad(kTimeout, a.timeout > 31)) return kTimeout;
    if (bad(kRetryCnt, a.retry_cnt > 7)) return kRetryCnt;
    if (bad(kRnrRetry, a.rnr_retry > 7)) return kRnrRetry;
    if (bad(kRqPsn, a.rq_psn > Psn::kMask)) return kRqPsn;
    if (bad(kMaxQpRdAtomic, a.max_rd_atomic > limits.max_rd_atomic)) return kMaxQpRdAtomic;
    // DEVIATION: no automatic path migration; RoCE NICs have none either (A16).
    if (bad(kAltPath, true)) return kAltPath;
    if (bad(kMinRnrTimer, a.min_rnr_timer > 31)) return kMinRnrTimer;
    if (bad(kSqPsn, a.sq_psn > Psn::kMask)) return kSqPsn;
    if (bad(kMaxDestRdAtomic, a.max_dest_rd_atomic > limits.max_dest_rd_atomic)) return kMaxDestRdAtomic;
    if (bad(kPathMigState, a.path_mig_state != 0)) return kPathMigState;  // migrated, always
    if (bad(kDestQpn, a.dest_qpn > 0xFFFFFF)) return kDestQpn;
    return 0;
}

}  // namespace

const Transition* find_transition(QpType type, QpState from, QpState to) {
    for (const std::span<const Transition> rows : {rows_of(type), std::span<const Transition>{kAnyState}})
        for (const Transition& t : rows)
            if (t.from == from && t.to == to) return &t;
    return nullptr;
}

int check_modify(QpType type, QpState current, const QpAttr& attr, uint32_t mask, const ModifyLimits& limits,
                 const char** bad_attr) {
    const auto refuse = [bad_attr](const char* name) {
        if (bad_attr != nullptr) *bad_attr = name;
        return EINVAL;
    };
    // Without a new state the current one is meant.
    const QpState next = mask & kState ? attr.state : current;
    const Transition* t = find_transition(type, current, next);
    if (t == nullptr) return refuse("qp_state");
    if (const uint32_t missing = t->required & ~mask) return refuse(name_of(missing));
    if (const uint32_t foreign = mask & ~(t->required | t->optional | kState)) return refuse(name_of(foreign));
    if (const uint32_t invalid = invalid_value(attr, mask, current, limits)) return refuse(name_of(invalid));
    return 0;
}

void apply_modify(QpAttr& to, const QpAttr& from, uint32_t mask) {
    if (mask & kState) to.state = from.state;
    if (mask & kEnSqdAsyncNotify) to.en_sqd_async_notify = from.en_sqd_async_notify;
    if (mask & kAccessFlags) to.access_flags = from.access_flags;
    if (mask & kPkeyIndex) to.pkey_index = from.pkey_index;
    if (mask & kPort) to.port_num = from.port_num;
    if (mask & kQkey) to.qkey = from.qkey;
    if (mask & kAv) to.ah = from.ah;
    if (mask & kPathMtu) to.path_mtu = from.path_mtu;
    if (mask & kTimeout) to.timeout = from.timeout;
    if (mask & kRetryCnt) to.retry_cnt = from.retry_cnt;
    if (mask & kRnrRetry) to.rnr_retry = from.rnr_retry;
    if (mask & kRqPsn) to.rq_psn = from.rq_psn;
    if (mask & kMaxQpRdAtomic) to.max_rd_atomic = from.max_rd_atomic;
    if (mask & kMinRnrTimer) to.min_rnr_timer = from.min_rnr_timer;
    if (mask & kSqPsn) to.sq_psn = from.sq_psn;
    if (mask & kMaxDestRdAtomic) to.max_dest_rd_atomic = from.max_dest_rd_atomic;
    if (mask & kPathMigState) to.path_mig_state = from.path_mig_state;
    if (mask & kDestQpn) to.dest_qpn = from.dest_qpn;
    if (mask & kRateLimit) {
        to.rate_limit = from.rate_limit;
        to.max_burst = from.max_burst;
    }
}

}  // namespace rocemu::transport
