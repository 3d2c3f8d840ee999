// SPDX-License-Identifier: BSD-3-Clause
// Control messages over the daemon's UNIX SOCK_SEQPACKET socket: one record a request, one record its reply, matched by
// request_id. File descriptors travel as SCM_RIGHTS with the record that mentions them. Everything is host order (both
// ends are on one machine). A request of the wrong size or number gets status EPROTO and nothing else happens.
#pragma once

#include <cstdint>

#include "abi/version.h"

namespace rocemu::abi {

enum class MessageType : uint16_t {
#define MESSAGE(name, number) name = number,
#include "abi/messages.def"
#undef MESSAGE
};

struct MessageHeader {
    uint32_t magic = kMagic;
    uint16_t type = 0;
    uint16_t reserved = 0;
    uint32_t request_id = 0;
    int32_t status = 0;  // reply: 0 or an errno value
};

inline constexpr uint32_t kMaxMessageBytes = 8192;
inline constexpr uint32_t kMaxShards = 32;
inline constexpr uint32_t kNoRegion = 0xFFFFFFFF;

// Where a queue lies. If `new_region_bytes` is not 0, the reply carries one fd: the memfd of region `region`, of that
// size (sealed against shrinking and growing), to be mapped whole. The first reply that tells of a region brings it.
struct QueueRef {
    uint32_t region = kNoRegion;
    uint32_t entries = 0;  // power of two
    uint32_t stride = 0;   // bytes a slot
    uint32_t reserved = 0;
    uint64_t offset = 0;   // of the QueueHeader in the region
};

// fds of the reply: memfd of region 0 (SessionPage at 0), then one eventfd per shard.
struct HelloRequest {
    uint16_t version_major = kVersionMajor;
    uint16_t version_minor = kVersionMinor;
    uint32_t pid = 0;        // for messages only; identity comes from SO_PEERCRED
    uint64_t features = 0;
    uint64_t probe_va = 0;   // address of a 16-byte cookie in the client, read by the daemon to see which path works
    uint8_t probe_cookie[16] = {};
    uint32_t admin = 0;      // 1: a tool (rocemu status, capture): no region, no session limits used
    uint32_t reserved = 0;
};
struct HelloReply {
    uint16_t version_major = kVersionMajor;
    uint16_t version_minor = kVersionMinor;
    uint32_t shards = 0;
    uint64_t features = 0;
    uint32_t devices = 0;
    uint32_t payload_path = 0;       // PayloadPath
    uint64_t region0_bytes = 0;
    uint64_t doorbells_offset = 0;   // DoorbellBlock[shards]
    uint64_t agent_offset = 0;       // AgentRing[shards]; 0 if there is none
    uint64_t stage_offset = 0;       // kStageBytes of stage (abi/stage.h); 0 if nothing is to be captured
    uint64_t receive_stage_offset = 0;  // ReceiveStage[shards] (abi/receive_stage.h); 0 if nothing is deferred
    char daemon_version[32] = {};
};
enum PayloadPath : uint32_t { kPathProcessVm = 1, kPathAgent = 2 };

struct ListDeviceRequest { uint32_t index = 0; };
struct ListDeviceReply {
    char name[64] = {};
    char netdev[16] = {};    // kernel interface, or empty
    uint64_t node_guid = 0;  // host order
    uint32_t index = 0;
    uint32_t reserved = 0;
};

// Asynchronous events of a context arrive on the SEQPACKET socket whose other end the request carries (one fd).
struct OpenContextRequest { uint32_t device = 0; };
struct OpenContextReply { uint32_t context = 0; };
struct CloseContextRequest { uint32_t context = 0; };
struct CloseContextReply {};

// Record on the asynchronous event socket. `element` is the cookie given at creation (CQ, QP, SRQ) or the port number.
struct AsyncEventRecord {
    uint64_t element = 0;
    uint32_t event_type = 0;  // AsyncEvent
    uint32_t reserved = 0;
};

struct QueryDeviceRequest { uint32_t context = 0; };
struct QueryDeviceReply {
    uint64_t node_guid = 0, sys_image_guid = 0;
    uint64_t max_mr_size = 0;
    uint64_t page_size_cap = 0;
    uint32_t max_qp = 0, max_qp_wr = 0, max_sge = 0, max_sge_rd = 0, max_inline = 0;
    uint32_t max_cq = 0, max_cqe = 0, max_mr = 0, max_pd = 0;
    uint32_t max_qp_rd_atom = 0, max_qp_init_rd_atom = 0, max_res_rd_atom = 0;
    uint32_t max_ah = 0, max_srq = 0, max_srq_wr = 0, max_srq_sge = 0, max_mw = 0;
    uint32_t max_mcast_grp = 0, max_mcast_qp_attach = 0;
    uint32_t vendor_id = 0, vendor_part_id = 0, hw_ver = 0;
    uint32_t device_cap_flags = 0, atomic_cap = 0;
    uint32_t max_pkeys = 0;
    uint32_t shards = 0;
    uint32_t raw_packets = 0;  // 1: raw packet QPs and flow rules
    uint32_t reserved = 0;
    char fw_ver[32] = {};
};

struct QueryPortRequest { uint32_t context = 0; uint32_t port = 0; };
struct QueryPortReply {
    uint32_t state = 0;        // enum ibv_port_state
    uint32_t max_mtu = 0;      // enum ibv_mtu
    uint32_t active_mtu = 0;
    uint32_t gid_tbl_len = 0;
    uint32_t port_cap_flags = 0;
    uint32_t max_msg_sz = 0;
    uint32_t pkey_tbl_len = 0;
    uint32_t active_width = 0;
    uint32_t active_speed = 0;
    uint32_t phys_state = 0;
    uint32_t link_layer = 0;
    uint32_t netdev_ifindex = 0;
};

enum class GidType : uint32_t { RoceV1 = 1, RoceV2 = 2 };  // ibv_gid_type_sysfs + 1 … as IBV_GID_TYPE_ROCE_V1/V2
struct GidRecord {
    uint8_t gid[16] = {};
    uint32_t index = 0;
    uint32_t type = 0;  // GidType; 0: the entry is empty
    uint32_t ndev_ifindex = 0;
    uint32_t reserved = 0;
};
inline constexpr uint32_t kGidsPerReply = 128;
struct QueryGidRequest { uint32_t context = 0; uint32_t port = 0; uint32_t first = 0; };
struct QueryGidReply {
    uint32_t count = 0;  // records that follow, from index `first` on; 0: past the end
    uint32_t total = 0;
    GidRecord gids[kGidsPerReply] = {};
};

struct AllocPdRequest { uint32_t context = 0; };
struct AllocPdReply { uint32_t pd = 0; };
struct DeallocPdRequest { uint32_t pd = 0; };
struct DeallocPdReply {};

// With one fd: the file that lies behind [va, va + length), a part of the region, from `offset` on, and that the daemon may
// map too if it is still this one: another thread of the program may have closed the descriptor and opened something else
// meanwhile.
struct RegionFile {
    uint64_t va = 0, length = 0;
    uint64_t offset = 0;
    uint64_t device = 0, inode = 0;  // fstat(2)
    uint32_t share_error = 0;  // errno: why memory that was to become shared (kFeatureShare) stayed private; 0: none did
    uint32_t reserved = 0;
};
struct RegMrRequest {
    uint32_t pd = 0;
    uint32_t access = 0;
    uint64_t va = 0;
    uint64_t length = 0;
    uint64_t iova = 0;
    RegionFile file;
};
// lkey and rkey, also the handle; mapped: 1: what is sent from the file's part of the region need not be captured.
struct RegMrReply { uint32_t key = 0; uint32_t mapped = 0; };
// ibv_rereg_mr_flags.
namespace rereg_mask {
inline constexpr uint32_t kTranslation = 1, kPd = 2, kAccess = 4;
}
// What the mask names changes, the key stays.
struct ReregMrRequest {
    uint32_t key = 0;
    uint32_t mask = 0;  // rereg_mask
    uint32_t pd = 0;
    uint32_t access = 0;
    uint64_t va = 0;    // also the first address in WRs and RETH from then on
    uint64_t length = 0;
    RegionFile file;    // of the region as it will be
};
struct ReregMrReply { uint32_t mapped = 0; };  // RegMrReply
struct DeregMrRequest { uint32_t key = 0; };
struct DeregMrReply {};

struct AllocMwRequest { uint32_t pd = 0; uint32_t type = 0; };  // 1 or 2
struct AllocMwReply { uint32_t key = 0; };  // rkey; also the handle
struct DeallocMwRequest { uint32_t key = 0; };
struct DeallocMwReply {};
// Windows of type 1 only, before their WQE (SqWqe with BIND_MW and the new key) is written: the window is to be found by
// every shard. `bound` 0: against the rules; the WQE then completes with the error.
struct BindMwRequest {
    uint32_t qpn = 0;
    uint32_t window = 0;  // handle
    uint32_t region = 0;  // lkey
    uint32_t access = 0;
    uint64_t addr = 0;
    uint64_t length = 0;  // 0: unbind
};
struct BindMwReply { uint32_t key = 0; uint32_t bound = 0; };  // the new rkey

// The request carries one fd: the daemon's end of the channel's SEQPACKET socket pair. A completion event is one
// 8-byte record, the CQ's cookie.
struct CreateChannelRequest { uint32_t context = 0; };
struct CreateChannelReply { uint32_t channel = 0; };
struct DestroyChannelRequest { uint32_t channel = 0; };
struct DestroyChannelReply {};

inline constexpr uint32_t kNoChannel = 0xFFFFFFFF;
struct CreateCqRequest {
    uint32_t context = 0;
    uint32_t cqe = 0;
    uint32_t channel = kNoChannel;
    uint32_t reserved = 0;
    uint64_t cookie = 0;  // the application's number of it, returned in events
};
// One single-producer ring per shard: ring i is at queue.offset + i * ring_bytes. The provider merges them.
struct CreateCqReply {
    uint32_t cq = 0;
    uint32_t rings = 0;
    uint64_t ring_bytes = 0;
    uint64_t new_region_bytes = 0;
    QueueRef queue;
};
// A new block of rings to which the shards have moved what was not consumed, from index 0 on. The application takes
// nothing between request and reply.
struct ResizeCqRequest {
    uint32_t cq = 0;
    uint32_t cqe = 0;
};
using ResizeCqReply = CreateCqReply;
// `unmapped` here and for SRQs and QPs: the application could not take or map the region that came with the object; nothing
// more is put there.
struct DestroyCqRequest { uint32_t cq = 0; uint32_t unmapped = 0; };
struct DestroyCqReply {};

// XRC domains. With kOfFile the request carries one fd: the domain is then the one of that file, for every process.
namespace xrcd_flags {
inline constexpr uint32_t kOfFile = 1, kCreate = 2, kExclusive = 4;
}
inline constexpr uint32_t kNoXrcd = 0;
struct OpenXrcdRequest { uint32_t context = 0; uint32_t flags = 0; };  // xrcd_flags
struct OpenXrcdReply { uint32_t xrcd = 0; };
struct CloseXrcdRequest { uint32_t xrcd = 0; };
struct CloseXrcdReply {};
// One more handle of an XRC target QP, to be given back by DestroyQp with the same cookie.
struct OpenQpRequest {
    uint32_t xrcd = 0;
    uint32_t qpn = 0;
    uint64_t cookie = 0;
};
struct OpenQpReply {};

struct CreateSrqRequest {
    uint32_t pd = 0;
    uint32_t max_wr = 0, max_sge = 0;
    uint32_t limit = 0;
    uint32_t xrcd = kNoXrcd;  // XRC ...
    uint32_t cq = 0;          // ... where its receives complete
    uint64_t cookie = 0;  // the application's number of it, returned in asynchronous events
};
struct CreateSrqReply {
    uint32_t srq = 0;
    uint32_t max_wr = 0, max_sge = 0;
    uint32_t reserved = 0;
    uint64_t new_region_bytes = 0;
    QueueRef queue;
};
// A new size comes with a new queue, to which the daemon has moved what waited, under the same indices. The application
// posts nothing between request and reply.
struct ModifySrqRequest {
    uint32_t srq = 0;
    uint32_t mask = 0;  // srq_attr_mask
    uint32_t max_wr = 0, limit = 0;
};
struct ModifySrqReply {
    uint32_t max_wr = 0;
    uint32_t reserved = 0;
    uint64_t new_region_bytes = 0;
    QueueRef queue;  // no region: unchanged
};
struct QuerySrqRequest { uint32_t srq = 0; };
struct QuerySrqReply { uint32_t max_wr = 0, max_sge = 0, limit = 0; };
struct DestroySrqRequest { uint32_t srq = 0; uint32_t unmapped = 0; };
struct DestroySrqReply {};

inline constexpr uint32_t kNoSrq = 0;
struct CreateQpRequest {
    uint32_t pd = 0;
    uint32_t send_cq = 0, recv_cq = 0;
    uint32_t type = 0;  // QpType
    uint32_t max_send_wr = 0, max_recv_wr = 0, max_send_sge = 0, max_recv_sge = 0, max_inline_data = 0;
    uint32_t sq_sig_all = 0;
    uint32_t srq = kNoSrq;
    uint32_t create_flags = 0;  // enum ibv_qp_create_flags
    uint32_t xrcd = kNoXrcd;    // XRC_RECV, in place of PD and CQs
    uint32_t reserved = 0;
    uint64_t cookie = 0;  // the application's number of it, returned in asynchronous events
};
struct CreateQpReply {
    uint32_t qpn = 0;    // also the handle
    uint32_t slot = 0;   // doorbell bit and Cqe::qp_slot, unique in the session; none of an XRC target
    uint32_t shard = 0;  // whose doorbell block
    uint32_t max_send_wr = 0, max_recv_wr = 0, max_send_sge = 0, max_recv_sge = 0, max_inline_data = 0;
    uint64_t new_region_bytes = 0;
    QueueRef sq, rq;     // same region
};

// A rule by which frames go to a raw packet QP. `key` and `mask` are FlowKeys (base/flow_key.h).
struct CreateFlowRequest {
    uint32_t qpn = 0;
    uint32_t type = 0;      // enum ibv_flow_attr_type
    uint32_t priority = 0;  // 16 bits; smaller is served first
    uint32_t flags = 0;     // enum ibv_flow_flags
    uint8_t key[64] = {}, mask[64] = {};
};
struct CreateFlowReply { uint32_t flow = 0; };
struct DestroyFlowRequest { uint32_t flow = 0; };
struct DestroyFlowReply {};

// A raw packet QP that spreads what is steered to it over others of this process.
inline constexpr uint32_t kMaxRssQueues = 128;
struct CreateRssQpRequest {
    uint32_t pd = 0;
    uint32_t count = 0;        // queues, a power of two
    uint32_t hash_fields = 0;  // enum ibv_rx_hash_fields
    uint8_t hash_key[40] = {};
    uint32_t queues[kMaxRssQueues] = {};  // QPNs
};
struct CreateRssQpReply { uint32_t qpn = 0; };
struct DestroyRssQpRequest { uint32_t qpn = 0; };
struct DestroyRssQpReply {};

inline constexpr uint32_t kMaxRateLimit = 400'000'000;

struct QpAttrRecord {
    uint32_t state = 0, cur_state = 0, path_mtu = 0, path_mig_state = 0;
    uint32_t qkey = 0, rq_psn = 0, sq_psn = 0, dest_qpn = 0, access_flags = 0;
    uint8_t dgid[16] = {};
    uint32_t flow_label = 0;
    uint8_t sgid_index = 0, hop_limit = 0, traffic_class = 0, sl = 0, is_global = 0, ah_port = 0;
    uint8_t en_sqd_async_notify = 0, sq_draining = 0, max_rd_atomic = 0, max_dest_rd_atomic = 0;
    uint8_t min_rnr_timer = 0, port_num = 0, timeout = 0, retry_cnt = 0, rnr_retry = 0, reserved0 = 0;
    uint16_t pkey_index = 0, reserved1 = 0;
    uint32_t rate_limit = 0;  // kbit/s, up to kMaxRateLimit; 0: none
    uint32_t max_burst = 0;   // bytes, goes with it; 0: the daemon's choice
};
struct ModifyQpRequest { uint32_t qpn = 0; uint32_t mask = 0; QpAttrRecord attr; };
struct ModifyQpReply { QpAttrRecord attr; };  // state after the call
struct QueryQpRequest { uint32_t qpn = 0; };
struct QueryQpReply { QpAttrRecord attr; };
struct DestroyQpRequest {
    uint32_t qpn = 0;
    uint32_t unmapped = 0;
    uint64_t cookie = 0;  // XRC targets: which handle
};
struct DestroyQpReply {};

// Address handle of a datagram QP: an address vector (as QpAttrRecord has one), resolved to a MAC address.
struct CreateAhRequest {
    uint32_t pd = 0;
    uint32_t flow_label = 0;
    uint8_t dgid[16] = {};
    uint8_t sgid_index = 0, hop_limit = 0, traffic_class = 0, sl = 0, is_global = 0, port_num = 0;
    uint16_t reserved = 0;
};
struct CreateAhReply { uint32_t ah = 0; };  // the session's number of it, what a WQE names
struct DestroyAhRequest { uint32_t ah = 0; };
struct DestroyAhReply {};

struct AttachMcastRequest { uint32_t qpn = 0; uint8_t gid[16] = {}; };
struct AttachMcastReply {};
struct DetachMcastRequest { uint32_t qpn = 0; uint8_t gid[16] = {}; };
struct DetachMcastReply {};

// Text documents (JSON) of the daemon, read in pieces. The daemon makes the document when offset is 0.
enum AdminDocument : uint32_t { kAdminStatus = 0, kAdminCounters = 1 };
inline constexpr uint32_t kAdminChunk = 7168;
struct AdminTextRequest { uint32_t document = 0; uint32_t offset = 0; };
struct AdminTextReply {
    uint32_t total = 0;
    uint32_t length = 0;
    char text[kAdminChunk] = {};
};

// Start: carries one fd, a file open for writing, where the daemon appends pcapng blocks. The capture ends when the
// admin connection closes or by `stop`.
struct AdminCaptureRequest { char device[64] = {}; uint32_t stop = 0; uint32_t snap_length = 0; };
struct AdminCaptureReply { uint64_t frames = 0; uint64_t missed = 0; };

// Impairments of one fabric device's link, each in parts per million of frames sent by it; seed 0 keeps the sequence.
struct AdminImpairRequest {
    char device[64] = {};
    uint64_t seed = 0;
    uint32_t drop_ppm = 0, duplicate_ppm = 0, reorder_ppm = 0, corrupt_ppm = 0;
    uint64_t delay_ns = 0;
};
struct AdminImpairReply {};

}  // namespace rocemu::abi

#include "abi/cm_messages.h"
