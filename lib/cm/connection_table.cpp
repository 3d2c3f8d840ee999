// SPDX-License-Identifier: BSD-3-Clause
// Ids, indexes and orphans. Read IBTA volume 1, 12.9.4: a communication id must not be reused while messages of its
// last life may still arrive, hence a generation in its upper bits.
#include "cm/connection_table.h"

namespace rocemu::cm {

namespace {

uint64_t fold(const wire::Gid& gid) {
    uint64_t halves[2];
    std::memcpy(halves, gid.raw.data(), sizeof halves);
    return halves[0] * 0x9e3779b97f4a7c15 ^ halves[1];
}

}  // namespace

ConnectionTable::ConnectionTable(const Config& config)
    : config_(config),
      slot_bits_(static_cast<unsigned>(std::bit_width(config.max_connections - 1))),
      id_mask_(static_cast<uint32_t>(mix(config.seed))),
      slots_(config.max_connections),
      generations_(config.max_connections),
      free_(config.max_connections),
      by_remote_id_(config.max_connections, config.seed ^ 1),
      by_remote_qp_(config.max_connections, config.seed ^ 2),
      deadlines_(config.max_connections),
      older_(config.max_connections),
      younger_(config.max_connections) {
    for (uint32_t slot = 0; slot < config.max_connections; ++slot) {
        generations_[slot] = static_cast<uint32_t>(mix(config.seed ^ (uint64_t{slot} << 32)));
        older_[slot] = younger_[slot] = slot;
        free_.push(slot);
    }
}

CmId ConnectionTable::next_id(uint32_t slot) {
    CmId id;
    do id = (++generations_[slot] << slot_bits_ | slot) ^ id_mask_;
    while (id == 0);
    return id;
}

Connection* ConnectionTable::find(CmId id) {
    const uint32_t slot = slot_of(id);
    if (slot >= slots_.size()) return nullptr;
    Connection& c = slots_[slot];
    return c.state() != State::Free && c.id() == id ? &c : nullptr;
}

uint64_t ConnectionTable::remote_hash(uint32_t remote_id, uint64_t guid, const Path& path, bool sidr) const {
    return by_remote_id_.hash(uint64_t{remote_id} << 1 | sidr, sidr ? fold(path.remote_gid) : guid);
}

Connection* ConnectionTable::find_remote(uint32_t remote_id, uint64_t guid, const Path& path, bool sidr) {
    const uint32_t slot = by_remote_id_.find(remote_hash(remote_id, guid, path, sidr), [&](uint32_t s) {
        const Connection& c = slots_[s];
        return c.is_sidr() == sidr && c.remote_id() == remote_id && (sidr || c.info().remote_ca_guid == guid) &&
               c.is_peer(path);
    });
    return slot == kNone ? nullptr : &slots_[slot];
}

Connection* ConnectionTable::find_remote_qp(uint32_t qpn, uint64_t guid, const Path& path) {
    const uint32_t slot = by_remote_qp_.find(by_remote_qp_.hash(qpn, guid), [&](uint32_t s) {
        const Connection& c = slots_[s];
        return c.info().remote_qpn == qpn && c.info().remote_ca_guid == guid && c.is_peer(path);
    });
    return slot == kNone ? nullptr : &slots_[slot];
}

Connection* ConnectionTable::allocate(OwnerId owner, uint64_t local_ca_guid, Counters& counters) {
    if (free_.empty()) {
        if (oldest_ == kNone) return nullptr;
        ++counters.evicted;
        release(oldest_);
    }
    const uint32_t slot = free_.front();
    free_.pop();
    slots_[slot].open(config_, next_id(slot), owner, local_ca_guid);
    return &slots_[slot];
}

bool ConnectionTable::settle(Connection& c) {
    const uint32_t slot = slot_of(c);
    const bool closed = c.state() == State::Closed;
    if (closed && c.is_orphan()) {
        release(slot);
        return false;
    }
    deadlines_.set(slot, c.deadline());
    if (closed || !c.knows_remote_id()) {
        by_remote_id_.erase(slot);
    } else if (!by_remote_id_.contains(slot)) {
        by_remote_id_.insert(slot, remote_hash(c.remote_id(), c.info().remote_ca_guid, c.info().path, c.is_sidr()));
    }
    if (!c.occupies_remote_qp()) {
        by_remote_qp_.erase(slot);
    } else if (!by_remote_qp_.contains(slot)) {
        by_remote_qp_.insert(slot, by_remote_qp_.hash(c.info().remote_qpn, c.info().remote_ca_guid));
    }
    if (c.is_orphan()) append_orphan(slot);
    return true;
}

void ConnectionTable::release(uint32_t slot) {
    remove_orphan(slot);
    deadlines_.set(slot, kNever);
    by_remote_id_.erase(slot);
    by_remote_qp_.erase(slot);
    slots_[slot].free();
    free_.push(slot);
}

void ConnectionTable::append_orphan(uint32_t slot) {
    if (older_[slot] != slot) return;  // already there
    older_[slot] = youngest_;
    younger_[slot] = kNone;
    (youngest_ == kNone ? oldest_ : younger_[youngest_]) = slot;
    youngest_ = slot;
}

void ConnectionTable::remove_orphan(uint32_t slot) {
    if (older_[slot] == slot) return;
    (older_[slot] == kNone ? oldest_ : younger_[older_[slot]]) = younger_[slot];
    (younger_[slot] == kNone ? youngest_ : older_[younger_[slot]]) = older_[slot];
    older_[slot] = younger_[slot] = slot;
}

}  // namespace rocemu::cm
