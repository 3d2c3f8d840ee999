// SPDX-License-Identifier: BSD-3-Clause
// Between rte_mbuf and engine::Frame, inside pmd/ only. The frame's buffer is the mbuf's; `handle` is the mbuf.
#pragma once

#include <rte_mbuf.h>

#include "engine/port.h"

namespace rocemu::pmd {

inline engine::Frame frame_of(rte_mbuf* m) {
    engine::Frame f;
    f.data = rte_pktmbuf_mtod(m, std::byte*);
    f.length = m->data_len;
    f.room = static_cast<uint32_t>(m->buf_len) - m->data_off;
    f.handle = m;
    return f;
}

// Brings the mbuf up to date with the frame, which may have moved its start within the buffer.
inline rte_mbuf* mbuf_of(const engine::Frame& f) {
    auto* m = static_cast<rte_mbuf*>(f.handle);
    m->data_off = static_cast<uint16_t>(f.data - static_cast<std::byte*>(m->buf_addr));
    m->data_len = static_cast<uint16_t>(f.length);
    m->pkt_len = f.length;
    return m;
}

}  // namespace rocemu::pmd
