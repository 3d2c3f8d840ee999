// SPDX-License-Identifier: BSD-3-Clause
// KeyTable: memory windows: binding, unbinding, invalidation. A window has its key when it is allocated and reaches
// nothing before it is bound. Type 2 windows are of kind 2B: bound to a QP and to a PD.
// Read IBTA volume 1, 10.6.7 (windows), 10.6.6 (local and remote invalidation), 11.2.8.12 (bind).
#include "base/verbs_types.h"
#include "memory/key_table.h"

namespace rocemu::memory {

namespace {

constexpr uint32_t kWindowAccess =
    access_flags::kRemoteWrite | access_flags::kRemoteRead | access_flags::kRemoteAtomic | access_flags::kZeroBased;
// Programs ask for local write too, as they do for regions: it means nothing, a window has no lkey.
constexpr uint32_t kIgnoredAccess = access_flags::kLocalWrite;

}  // namespace

Region* KeyTable::window(uint32_t key) {
    const uint32_t index = index_of(key);
    if (index >= slots_.size() || slots_[index].key == 0 || !slots_[index].is_window()) return nullptr;
    return &slots_[index];
}

KeyKind KeyTable::kind_of(uint32_t key) const {
    const uint32_t index = index_of(key);
    return index < slots_.size() ? slots_[index].kind : KeyKind::Region;
}

void KeyTable::unbind(Region& w) {
    if (w.parent == 0) return;
    const uint32_t index = index_of(w.parent);
    if (slots_[index].key == w.parent) --slots_[index].windows;
    w.parent = w.access = w.qpn = 0;
    w.iova = w.length = w.va = 0;
    w.mapped = false;
}

bool KeyTable::bind(const WindowBind& b) {
    Region* w = window(b.key);
    if (w == nullptr || w->pd != b.pd || (b.access & ~(kWindowAccess | kIgnoredAccess))) return false;
    const bool type2 = w->kind == KeyKind::WindowType2;
    // IBTA o10-37.2.30: a bound window of type 2 must be invalidated before it is bound again. o10-36.2.2: zero-based
    // addresses are for type 2.
    if (type2 ? w->parent != 0 || b.length == 0 : (b.access & access_flags::kZeroBased) != 0) return false;
    if (b.length == 0) {
        unbind(*w);
        w->key = b.key;
        return true;
    }
    const Region* r = find(b.region);
    // IBTA C10-73 to C10-75: a region of the same PD that allows windows; nobody gets from a window what the region's
    // owner did not have; inside its bounds.
    if (r == nullptr || r->is_window() || r->pd != b.pd || !(r->access & access_flags::kMwBind)) return false;
    const bool writes = (b.access & (access_flags::kRemoteWrite | access_flags::kRemoteAtomic)) != 0;
    if (writes && !(r->access & access_flags::kLocalWrite)) return false;
    const uint64_t offset = b.addr - r->iova;
    if (offset > r->length || b.length > r->length - offset) return false;
    unbind(*w);
    w->key = b.key;
    w->access = b.access & kWindowAccess;
    w->iova = b.access & access_flags::kZeroBased ? 0 : b.addr;
    w->length = b.length;
    w->va = r->va + offset;
    w->space = r->space;
    w->mapped = r->mapped;
    w->parent = b.region;
    w->qpn = type2 ? b.qpn : 0;
    ++slots_[index_of(b.region)].windows;
    return true;
}

bool KeyTable::is_bound(const WindowBind& b) const {
    const Region* w = find(b.key);
    if (w == nullptr || !w->is_window() || w->pd != b.pd || w->length != b.length) return false;
    return b.length == 0 || (w->parent == b.region && w->access == (b.access & kWindowAccess));
}

// IBTA C10-111 (10.6.6): only what the QP itself could reach may be invalidated through it, and never a plain region or
// a window of type 1.
bool KeyTable::may_invalidate(uint32_t key, PdId pd, uint32_t qpn) const {
    const Region* w = find(key);
    return w != nullptr && w->kind == KeyKind::WindowType2 && w->parent != 0 && w->pd == pd && w->qpn == qpn;
}

bool KeyTable::invalidate(uint32_t key, PdId pd, uint32_t qpn) {
    if (!may_invalidate(key, pd, qpn)) return false;
    unbind(slots_[index_of(key)]);
    return true;
}

bool KeyTable::remove_window(uint32_t key) {
    const Region* w = window(key);
    return w != nullptr && remove(w->key);
}

void KeyTable::unbind_all_of(uint32_t qpn) {
    for (Region& r : slots_)
        if (r.kind == KeyKind::WindowType2 && r.qpn == qpn) unbind(r);
}

}  // namespace rocemu::memory
