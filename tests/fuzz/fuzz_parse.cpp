// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer target for parse_frame, the ICRC and the builder: any bytes are a frame. What is accepted must satisfy
// support/packet_invariants.h. Built with -Dfuzz=true and clang; seeds come from the recorded frames
// (make_corpus.py). Run for longer: build/tests/fuzz/fuzz_parse CORPUS -max_total_time=600
#include <cstdint>
#include <cstdlib>

#include "support/packet_invariants.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // A copy of exactly this size, so that the sanitizer sees each byte read beyond it.
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    const rocemu::test::Frame frame(bytes, bytes + size);
    rocemu::wire::PacketView packet;
    const auto result = rocemu::wire::parse_frame(frame, packet);
    using Kind = rocemu::wire::ParseResult::Kind;
    if ((result.kind == Kind::Drop) != (result.reason != rocemu::wire::DropReason::None)) std::abort();
    if (result.ok() && !rocemu::test::holds_together(packet, frame)) std::abort();
    return 0;
}
