// SPDX-License-Identifier: BSD-3-Clause
// The stage: memory of a session into which the provider copies the payload of SENDs and WRITEs when they are posted
// ("capture"), so that the daemon sends and resends them without reaching into the application. It lies in region 0
// (HelloReply::stage_offset). Only the provider allocates in it: what a WQE holds is free again when the WQE has
// completed (QueueHeader::retired, or its CQE).
//
// A WQE of PayloadKind::Staged carries its SGEs too: keys are checked as ever, and the daemon may gather from them
// instead. `stage_ref` says where the bytes are. 0: not captured yet. The provider captures the oldest such WQE when
// room gets free, stores stage_ref with release and rings the doorbell; the daemon (acquire) waits for that a short time
// only. The daemon believes neither offset nor contents: the range is checked against its own sizes, and the ICRC is
// computed over the bytes it copies into the frame.
#pragma once

#include <cstdint>

namespace rocemu::abi {

inline constexpr uint32_t kStageBytes = 2u << 20;
inline constexpr uint32_t kStageBlock = 4096;
inline constexpr uint32_t kMaxCapture = 256u << 10;  // longer messages are gathered

// SqWqe::stage_ref
inline constexpr uint64_t kStageReady = uint64_t{1} << 63;
inline constexpr uint64_t kStageInSlot = uint64_t{1} << 62;  // in the SQ slot, right behind the num_sge SGEs
inline constexpr uint64_t kStageOffset = 0xFFFFFFFF;         // else: of the first byte in the stage

}  // namespace rocemu::abi
