// SPDX-License-Identifier: BSD-3-Clause
// Version of the border between applications (provider) and daemon. Major: layouts and messages of both sides must be
// equal. Minor: fields or messages were added at the end. tests/abi/layout.golden fails when a layout changes.
#pragma once

#include <cstdint>

namespace rocemu::abi {

inline constexpr uint32_t kMagic = 0x524F4345;  // "ROCE"
inline constexpr uint16_t kVersionMajor = 2;
inline constexpr uint16_t kVersionMinor = 0;

// Feature bits, exchanged at hello; both sides use the intersection.
enum Feature : uint64_t {
    kFeatureProcessVm = 1u << 0,  // the process allows (client) / can use (daemon) process_vm_readv/writev
    kFeatureAgent = 1u << 1,      // a copy thread in the application serves payload jobs
    kFeatureCapture = 1u << 2,    // the provider copies payload into the stage when it is posted
    kFeatureMapped = 1u << 3,     // the provider sends the file behind a memory region with its registration
    kFeatureDeferred = 1u << 4,   // the provider places received payload when it polls
    kFeatureShare = 1u << 5,      // the provider makes private memory shared when it is registered, to send its file
};

}  // namespace rocemu::abi
