// SPDX-License-Identifier: BSD-3-Clause
// Impairments: what the embedded switch does to the frames that one NIC sends, decided by a seeded generator, so that a
// run in virtual time repeats exactly. Rates are parts per million of frames; at most one fault hits a frame
// (a delay comes on top).
#pragma once

#include <cstdint>

#include "base/time.h"

namespace rocemu::fabric {

struct Impairments {
    uint64_t seed = 0;  // 0: the generator goes on where it is
    uint32_t drop_ppm = 0;
    uint32_t duplicate_ppm = 0;
    uint32_t reorder_ppm = 0;  // held back behind 1 to 8 later frames, 100 us at most
    uint32_t corrupt_ppm = 0;  // one bit behind the Ethernet header is flipped
    Duration delay = 0;        // of every frame
};

}  // namespace rocemu::fabric
