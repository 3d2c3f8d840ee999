// SPDX-License-Identifier: BSD-3-Clause
// See key_table.h. The order of the checks follows IBTA volume 1, 10.6.3: key, PD, access, bounds.
#include "memory/key_table.h"

namespace rocemu::memory {

void KeyTable::insert(const Region& region) {
    const uint32_t index = index_of(region.key);
    if (index >= slots_.size()) slots_.resize(index + 1 + index / 2);
    if (slots_[index].key == 0) ++live_;
    slots_[index] = region;
}

bool KeyTable::remove(uint32_t key) {
    const uint32_t index = index_of(key);
    if (key == 0 || index >= slots_.size() || slots_[index].key != key) return false;
    if (slots_[index].windows != 0)
        for (Region& r : slots_)
            if (r.parent == key) unbind(r);
    if (slots_[index].is_window()) unbind(slots_[index]);
    slots_[index] = Region{};
    --live_;
    return true;
}

const Region* KeyTable::find(uint32_t key) const {
    const uint32_t index = index_of(key);
    if (key == 0 || index >= slots_.size() || slots_[index].key != key) return nullptr;
    return &slots_[index];
}

KeyStatus KeyTable::within(const Region& r, PdId pd, uint64_t addr, uint32_t length, uint32_t need, Segment& out) {
    if (r.pd != pd) return KeyStatus::WrongPd;
    if ((r.access & need) != need) return KeyStatus::AccessDenied;
    // Unsigned arithmetic: an address below iova wraps to a huge offset and fails.
    const uint64_t offset = addr - r.iova;
    if (offset > r.length || length > r.length - offset) return KeyStatus::OutOfBounds;
    const uint32_t region = r.is_window() ? r.parent : r.key;
    out = Segment{r.space, length, r.va + offset, r.mapped ? region : 0, region};
    return KeyStatus::Ok;
}

KeyStatus KeyTable::resolve(uint32_t key, PdId pd, uint64_t addr, uint32_t length, uint32_t need, Segment& out) const {
    const Region* r = find(key);
    if (r == nullptr || r->is_window()) return KeyStatus::NoSuchKey;
    return within(*r, pd, addr, length, need, out);
}

KeyStatus KeyTable::resolve_remote(uint32_t key, PdId pd, uint32_t qpn, uint64_t addr, uint32_t length, uint32_t need,
                                   Segment& out) const {
    const Region* r = find(key);
    // IBTA 10.6.7.2: a window is reached while it is bound; one of type 2 through the QP it was bound through only.
    if (r == nullptr || (r->is_window() && r->parent == 0)) return KeyStatus::NoSuchKey;
    if (r->kind == KeyKind::WindowType2 && r->qpn != qpn) return KeyStatus::NoSuchKey;
    return within(*r, pd, addr, length, need, out);
}

bool KeyTable::holds(const Segment& segment) const {
    const Region* r = find(segment.region);
    if (r == nullptr) return false;
    const uint64_t offset = segment.va - r->va;
    return r->space == segment.space && offset <= r->length && segment.length <= r->length - offset;
}

}  // namespace rocemu::memory
