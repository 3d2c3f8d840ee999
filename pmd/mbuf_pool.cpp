// SPDX-License-Identifier: BSD-3-Clause
// See mbuf_pool.h.
#include "pmd/mbuf_pool.h"

#include <rte_errno.h>
#include <rte_mempool.h>

#include <algorithm>

#include "pmd/mbuf_frame.h"

namespace rocemu::pmd {

namespace {
constexpr uint32_t kCache = 256;  // per lcore
constexpr size_t kBulk = 128;
}  // namespace

std::unique_ptr<MbufPool> MbufPool::create(const std::string& name, uint32_t frames, uint32_t room,
                                           std::string& error) {
    const uint32_t data_room = room + RTE_PKTMBUF_HEADROOM;
    if (data_room > UINT16_MAX) {
        error = "frame pool " + name + ": frames of " + std::to_string(room) + " bytes do not fit into an mbuf";
        return nullptr;
    }
    rte_mempool* pool = rte_pktmbuf_pool_create(name.c_str(), frames, std::min(kCache, frames / 4), 0,
                                                static_cast<uint16_t>(data_room), SOCKET_ID_ANY);
    if (pool == nullptr) {
        error = "frame pool " + name + " of " + std::to_string(frames) + " frames: " + rte_strerror(rte_errno);
        return nullptr;
    }
    return std::unique_ptr<MbufPool>(new MbufPool(pool, room));
}

MbufPool::~MbufPool() {
    rte_mempool_free(pool_);
}

bool MbufPool::alloc(std::span<engine::Frame> frames) {
    rte_mbuf* mbufs[kBulk];
    for (size_t done = 0; done < frames.size();) {
        const size_t n = std::min(frames.size() - done, kBulk);
        if (rte_pktmbuf_alloc_bulk(pool_, mbufs, static_cast<unsigned>(n)) != 0) {
            free(frames.first(done));
            return false;
        }
        for (size_t i = 0; i < n; ++i) frames[done + i] = frame_of(mbufs[i]);
        done += n;
    }
    return true;
}

void MbufPool::free(std::span<engine::Frame> frames) {
    rte_mbuf* mbufs[kBulk];
    for (size_t done = 0; done < frames.size();) {
        const size_t n = std::min(frames.size() - done, kBulk);
        for (size_t i = 0; i < n; ++i) mbufs[i] = static_cast<rte_mbuf*>(frames[done + i].handle);
        rte_pktmbuf_free_bulk(mbufs, static_cast<unsigned>(n));
        done += n;
    }
}

uint32_t MbufPool::in_use() const {
    return rte_mempool_in_use_count(pool_);
}

}  // namespace rocemu::pmd
