// SPDX-License-Identifier: BSD-3-Clause
// The numbers of the verbs interface that every layer speaks: opcodes, statuses, states, masks. Values equal those of
// the public <infiniband/verbs.h> (checked by static_assert in lib/provider), so nothing is ever translated on the way
// from an application's WR to the core and back. No dependency on rdma-core here.
#pragma once

#include <cstdint>

namespace rocemu {

enum class QpType : uint8_t { Rc = 2, Uc = 3, Ud = 4, RawPacket = 8, XrcSend = 9, XrcRecv = 10 };

enum class QpState : uint8_t { Reset = 0, Init = 1, Rtr = 2, Rts = 3, Sqd = 4, Sqe = 5, Err = 6 };

enum class WrOpcode : uint8_t {
    RdmaWrite = 0,
    RdmaWriteWithImm = 1,
    Send = 2,
    SendWithImm = 3,
    RdmaRead = 4,
    AtomicCmpAndSwp = 5,
    AtomicFetchAndAdd = 6,
    LocalInv = 7,
    BindMw = 8,
    SendWithInv = 9,
    Tso = 10,
    Driver1 = 11,
    AtomicWrite = 15,
};
inline constexpr uint32_t kWrOpcodes = 16;  // the highest value, and one

namespace send_flags {
inline constexpr uint32_t kFence = 1, kSignaled = 2, kSolicited = 4, kInline = 8, kIpCsum = 16;
}

enum class WcStatus : uint8_t {
    Success = 0,
    LocLenErr,
    LocQpOpErr,
    LocEecOpErr,
    LocProtErr,
    WrFlushErr,
    MwBindErr,
    BadRespErr,
    LocAccessErr,
    RemInvReqErr,
    RemAccessErr,
    RemOpErr,
    RetryExcErr,
    RnrRetryExcErr,
    LocRddViolErr,
    RemInvRdReqErr,
    RemAbortErr,
    InvEecnErr,
    InvEecStateErr,
    FatalErr,
    RespTimeoutErr,
    GeneralErr,
};

enum class WcOpcode : uint8_t {
    Send = 0,
    RdmaWrite = 1,
    RdmaRead = 2,
    CompSwap = 3,
    FetchAdd = 4,
    BindMw = 5,
    LocalInv = 6,
    Tso = 7,
    AtomicWrite = 9,
    Recv = 128,
    RecvRdmaWithImm = 129,
};

namespace wc_flags {
inline constexpr uint32_t kGrh = 1, kWithImm = 2, kIpCsumOk = 4, kWithInv = 8;
}

namespace access_flags {
inline constexpr uint32_t kLocalWrite = 1, kRemoteWrite = 2, kRemoteRead = 4, kRemoteAtomic = 8, kMwBind = 16,
                          kZeroBased = 32, kOnDemand = 64, kHugetlb = 128, kRelaxedOrdering = 1u << 20;
}

namespace qp_attr_mask {
inline constexpr uint32_t kState = 1 << 0, kCurState = 1 << 1, kEnSqdAsyncNotify = 1 << 2, kAccessFlags = 1 << 3,
                          kPkeyIndex = 1 << 4, kPort = 1 << 5, kQkey = 1 << 6, kAv = 1 << 7, kPathMtu = 1 << 8,
                          kTimeout = 1 << 9, kRetryCnt = 1 << 10, kRnrRetry = 1 << 11, kRqPsn = 1 << 12,
                          kMaxQpRdAtomic = 1 << 13, kAltPath = 1 << 14, kMinRnrTimer = 1 << 15, kSqPsn = 1 << 16,
                          kMaxDestRdAtomic = 1 << 17, kPathMigState = 1 << 18, kCap = 1 << 19, kDestQpn = 1 << 20,
                          kRateLimit = 1 << 25;
}

namespace srq_attr_mask {
inline constexpr uint32_t kMaxWr = 1, kLimit = 2;
}

enum class AsyncEvent : uint8_t {
    CqErr = 0,
    QpFatal,
    QpReqErr,
    QpAccessErr,
    CommEst,
    SqDrained,
    PathMig,
    PathMigErr,
    DeviceFatal,
    PortActive,
    PortErr,
    LidChange,
    PkeyChange,
    SmChange,
    SrqErr,
    SrqLimitReached,
    QpLastWqeReached,
    ClientReregister,
    GidChange,
    WqFatal,
};

// A scatter/gather element as the application wrote it: nothing in it is validated yet.
struct Sge {
    uint64_t addr;    // iova in the MR's address range
    uint32_t length;  // bytes
    uint32_t lkey;
};
static_assert(sizeof(Sge) == 16);

inline constexpr uint64_t kMaxMessageBytes = 1ull << 31;  // IBTA C9-6: messages of 0 to 2^31 bytes

}  // namespace rocemu
