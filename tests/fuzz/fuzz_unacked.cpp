// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer target for UC and datagram QPs of the transport core; see transport_program.h. Run for longer:
// build/tests/fuzz/fuzz_unacked CORPUS -max_total_time=600
#include "transport_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 8) return 0;
    rocemu::fuzz::TransportProgram(rocemu::fuzz::Role::Unacked, data, size).run();
    return 0;
}
