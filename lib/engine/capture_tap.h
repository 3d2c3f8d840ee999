// SPDX-License-Identifier: BSD-3-Clause
// CaptureTap: copies frames (both directions, dropped ones with their reason) into a ring that control empties into a
// pcapng file. One writer (the shard), one reader (control). A full ring counts the frame as missed, never waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace rocemu::engine {

enum class TapDirection : uint8_t { Rx, Tx };

struct TapRecord {
    int64_t unix_ns = 0;  // wall clock
    TapDirection direction = TapDirection::Rx;
    uint16_t drop_reason = 0;  // 0: not dropped; else index into the drop reasons' names (wire/drop_reason.h)
    uint32_t length = 0;       // of the frame
    uint32_t captured = 0;     // bytes that follow
};

class CaptureTap {
  public:
    CaptureTap(uint32_t ring_bytes, uint32_t snap_length);
    ~CaptureTap();
    // Shard only.
    void record(TapDirection direction, std::span<const std::byte> frame, uint16_t drop_reason);
    // Control only: copies the next record's bytes into `out` (at least snap_length); false: empty.
    bool read(TapRecord& record, std::span<std::byte> out);
    [[nodiscard]] uint64_t missed() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace rocemu::engine
