// SPDX-License-Identifier: BSD-3-Clause
// What must hold for the provider to be right, checked when it is compiled: the numbers of base/verbs_types.h are those
// of verbs.h, and verbs.h has the layouts that programs of every release of rdma-core share.
#include "base/verbs_types.h"
#include "provider/objects.h"
#include "provider/qp.h"
#include "provider/srq.h"

namespace rocemu::provider {

#define SAME(ours, theirs) static_assert(static_cast<uint64_t>(ours) == static_cast<uint64_t>(theirs))

SAME(QpType::Rc, IBV_QPT_RC);
SAME(QpType::Uc, IBV_QPT_UC);
SAME(QpType::Ud, IBV_QPT_UD);
SAME(QpType::RawPacket, IBV_QPT_RAW_PACKET);
SAME(QpType::XrcSend, IBV_QPT_XRC_SEND);
SAME(QpType::XrcRecv, IBV_QPT_XRC_RECV);
SAME(QpState::Reset, IBV_QPS_RESET);
SAME(QpState::Init, IBV_QPS_INIT);
SAME(QpState::Rtr, IBV_QPS_RTR);
SAME(QpState::Rts, IBV_QPS_RTS);
SAME(QpState::Sqd, IBV_QPS_SQD);
SAME(QpState::Sqe, IBV_QPS_SQE);
SAME(QpState::Err, IBV_QPS_ERR);
SAME(WrOpcode::RdmaWrite, IBV_WR_RDMA_WRITE);
SAME(WrOpcode::RdmaWriteWithImm, IBV_WR_RDMA_WRITE_WITH_IMM);
SAME(WrOpcode::Send, IBV_WR_SEND);
SAME(WrOpcode::SendWithImm, IBV_WR_SEND_WITH_IMM);
SAME(WrOpcode::RdmaRead, IBV_WR_RDMA_READ);
SAME(WrOpcode::AtomicCmpAndSwp, IBV_WR_ATOMIC_CMP_AND_SWP);
SAME(WrOpcode::AtomicFetchAndAdd, IBV_WR_ATOMIC_FETCH_AND_ADD);
SAME(WrOpcode::LocalInv, IBV_WR_LOCAL_INV);
SAME(WrOpcode::BindMw, IBV_WR_BIND_MW);
SAME(WrOpcode::SendWithInv, IBV_WR_SEND_WITH_INV);
SAME(WrOpcode::AtomicWrite, IBV_WR_ATOMIC_WRITE);
SAME(send_flags::kFence, IBV_SEND_FENCE);
SAME(send_flags::kSignaled, IBV_SEND_SIGNALED);
SAME(send_flags::kSolicited, IBV_SEND_SOLICITED);
SAME(send_flags::kInline, IBV_SEND_INLINE);
SAME(WcStatus::LocProtErr, IBV_WC_LOC_PROT_ERR);
SAME(WcStatus::WrFlushErr, IBV_WC_WR_FLUSH_ERR);
SAME(WcStatus::RemAccessErr, IBV_WC_REM_ACCESS_ERR);
SAME(WcStatus::MwBindErr, IBV_WC_MW_BIND_ERR);
SAME(WcStatus::RetryExcErr, IBV_WC_RETRY_EXC_ERR);
SAME(WcStatus::RnrRetryExcErr, IBV_WC_RNR_RETRY_EXC_ERR);
SAME(WcStatus::GeneralErr, IBV_WC_GENERAL_ERR);
SAME(WcOpcode::RdmaRead, IBV_WC_RDMA_READ);
SAME(WcOpcode::BindMw, IBV_WC_BIND_MW);
SAME(WcOpcode::LocalInv, IBV_WC_LOCAL_INV);
SAME(WcOpcode::AtomicWrite, IBV_WC_ATOMIC_WRITE);
SAME(WcOpcode::Recv, IBV_WC_RECV);
SAME(WcOpcode::RecvRdmaWithImm, IBV_WC_RECV_RDMA_WITH_IMM);
SAME(wc_flags::kGrh, IBV_WC_GRH);
SAME(wc_flags::kWithImm, IBV_WC_WITH_IMM);
SAME(wc_flags::kWithInv, IBV_WC_WITH_INV);
SAME(access_flags::kLocalWrite, IBV_ACCESS_LOCAL_WRITE);
SAME(access_flags::kRemoteWrite, IBV_ACCESS_REMOTE_WRITE);
SAME(access_flags::kRemoteRead, IBV_ACCESS_REMOTE_READ);
SAME(access_flags::kRemoteAtomic, IBV_ACCESS_REMOTE_ATOMIC);
SAME(access_flags::kMwBind, IBV_ACCESS_MW_BIND);
SAME(access_flags::kZeroBased, IBV_ACCESS_ZERO_BASED);
SAME(access_flags::kOnDemand, IBV_ACCESS_ON_DEMAND);
SAME(qp_attr_mask::kState, IBV_QP_STATE);
SAME(qp_attr_mask::kAv, IBV_QP_AV);
SAME(qp_attr_mask::kPathMtu, IBV_QP_PATH_MTU);
SAME(qp_attr_mask::kSqPsn, IBV_QP_SQ_PSN);
SAME(qp_attr_mask::kMaxDestRdAtomic, IBV_QP_MAX_DEST_RD_ATOMIC);
SAME(qp_attr_mask::kDestQpn, IBV_QP_DEST_QPN);
SAME(qp_attr_mask::kRateLimit, IBV_QP_RATE_LIMIT);
SAME(abi::rereg_mask::kTranslation, IBV_REREG_MR_CHANGE_TRANSLATION);
SAME(abi::rereg_mask::kPd, IBV_REREG_MR_CHANGE_PD);
SAME(abi::rereg_mask::kAccess, IBV_REREG_MR_CHANGE_ACCESS);
SAME(srq_attr_mask::kMaxWr, IBV_SRQ_MAX_WR);
SAME(srq_attr_mask::kLimit, IBV_SRQ_LIMIT);
SAME(AsyncEvent::SrqErr, IBV_EVENT_SRQ_ERR);
SAME(AsyncEvent::SrqLimitReached, IBV_EVENT_SRQ_LIMIT_REACHED);
SAME(AsyncEvent::CqErr, IBV_EVENT_CQ_ERR);
SAME(AsyncEvent::QpAccessErr, IBV_EVENT_QP_ACCESS_ERR);
SAME(AsyncEvent::CommEst, IBV_EVENT_COMM_EST);
SAME(AsyncEvent::DeviceFatal, IBV_EVENT_DEVICE_FATAL);
SAME(AsyncEvent::GidChange, IBV_EVENT_GID_CHANGE);
SAME(AsyncEvent::QpLastWqeReached, IBV_EVENT_QP_LAST_WQE_REACHED);

// Equal in all releases from 34 on: a build of one runs with programs of another.
static_assert(sizeof(ibv_context) == 328 && sizeof(ibv_context_ops) == 256 && sizeof(ibv_device) == 664);
static_assert(sizeof(ibv_qp) == 160 && sizeof(ibv_cq) == 128 && sizeof(ibv_cq_ex) == 288 && sizeof(ibv_srq) == 128);
static_assert(sizeof(ibv_mr) == 48 && sizeof(ibv_wc) == 48 && sizeof(ibv_send_wr) == 128);
static_assert(sizeof(ibv_qp_attr) == 144 && sizeof(ibv_gid_entry) == 32);

// Applications hold pointers to the first member.
static_assert(offsetof(Device, base) == 0 && offsetof(Pd, base) == 0 && offsetof(Xrcd, base) == 0 && offsetof(Mr, base) == 0);
static_assert(offsetof(Channel, base) == 0 && offsetof(Cq, ex) == 0 && offsetof(Srq, base) == 0 && offsetof(Qp, ex) == 0);
static_assert(offsetof(verbs_context, context) + sizeof(ibv_context) == sizeof(verbs_context));

}  // namespace rocemu::provider
