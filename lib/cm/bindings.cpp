// SPDX-License-Identifier: BSD-3-Clause
// Overlap rules, ephemeral ports and listener lookup. Annex A11 of the IBTA specification; bind(2) and ip(7) for the
// rules of addresses.
#include "cm/bindings.h"

namespace rocemu::cm {

namespace {

constexpr wire::Gid kAnyV4 = wire::Gid::from_ipv4(0);

bool is_v4(const wire::Gid& address) {
    return address.is_ipv4_mapped();
}
bool is_any(const wire::Gid& address) {
    return address.is_zero() || address == kAnyV4;
}
// :: that takes IPv4 as well.
bool is_dual(const BindParams& p) {
    return p.address.is_zero() && !p.v6_only;
}

bool overlap(const BindParams& a, const BindParams& b) {
    if (is_v4(a.address) != is_v4(b.address)) return is_dual(a) || is_dual(b);
    return is_any(a.address) || is_any(b.address) || a.address == b.address;
}

}  // namespace

Bindings::Bindings(const Config& config)
    : config_(config),
      random_(mix(config.seed ^ 3)),
      slots_(config.max_bindings),
      generations_(config.max_bindings),
      index_(config.max_bindings, config.seed ^ 4) {
    free_.reserve(config.max_bindings);
    for (uint32_t slot = config.max_bindings; slot-- > 0;) free_.push_back(slot);
}

uint64_t Bindings::hash(PortSpace space, uint16_t port) const {
    return index_.hash(static_cast<uint64_t>(space), port);
}

bool Bindings::is_free(const BindParams& wanted) const {
    return index_.find(hash(wanted.port_space, wanted.port), [&](uint32_t s) {
        const Binding& b = slots_[s];
        return b.params.port_space == wanted.port_space && b.params.port == wanted.port && overlap(b.params, wanted) &&
               (b.listening || !b.params.reuse_address || !wanted.reuse_address);
    }) == HashIndex::kNone;
}

uint16_t Bindings::choose_port(const BindParams& params) {
    const uint32_t count = uint32_t{config_.last_ephemeral_port} - config_.first_ephemeral_port + 1;
    random_ = mix(random_);
    BindParams wanted = params;
    wanted.reuse_address = false;  // nobody asked for a port that is in use
    for (uint32_t i = 0; i < count; ++i) {
        wanted.port = static_cast<uint16_t>(config_.first_ephemeral_port + (random_ + i) % count);
        if (is_free(wanted)) return wanted.port;
    }
    return 0;
}

Result<Binding*> Bindings::bind(OwnerId owner, const BindParams& params) {
    if (params.address.is_multicast()) return {Status::InvalidArgument};
    if (free_.empty()) return {Status::NoResources};
    BindParams chosen = params;
    if (chosen.port == 0) {
        chosen.port = choose_port(params);
        if (chosen.port == 0) return {Status::AddressInUse};
    } else if (!is_free(chosen)) {
        return {Status::AddressInUse};
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    if (++generations_[slot] == 0) ++generations_[slot];
    const BindingId id = uint32_t{generations_[slot]} << 16 | slot;
    slots_[slot] = Binding{.id = id, .owner = owner, .params = chosen};
    index_.insert(slot, hash(chosen.port_space, chosen.port));
    return {Status::Ok, &slots_[slot]};
}

Status Bindings::listen(Binding& binding, uint32_t backlog) {
    const uint32_t other = index_.find(hash(binding.params.port_space, binding.params.port), [&](uint32_t s) {
        const Binding& b = slots_[s];
        return &b != &binding && b.listening && b.params.port_space == binding.params.port_space &&
               b.params.port == binding.params.port && overlap(b.params, binding.params);
    });
    if (other != HashIndex::kNone) return Status::AddressInUse;
    binding.listening = true;
    binding.backlog = backlog;
    return Status::Ok;
}

void Bindings::unbind(Binding& binding) {
    const auto slot = static_cast<uint32_t>(&binding - slots_.data());
    index_.erase(slot);
    binding = Binding{};
    free_.push_back(slot);
}

Binding* Bindings::find(BindingId id) {
    const uint32_t slot = id & 0xffff;
    return id != 0 && slot < slots_.size() && slots_[slot].id == id ? &slots_[slot] : nullptr;
}

Binding* Bindings::find_listener(IpService service, const wire::Gid& address) {
    const auto find = [&](auto takes) {
        return index_.find(hash(service.port_space, service.port), [&](uint32_t s) {
            const Binding& b = slots_[s];
            return b.listening && b.params.port_space == service.port_space && b.params.port == service.port &&
                   takes(b.params);
        });
    };
    uint32_t slot = find([&](const BindParams& p) { return p.address == address; });
    if (slot == HashIndex::kNone)
        slot = find([&](const BindParams& p) {
            return is_any(p.address) && (is_v4(p.address) == is_v4(address) || is_dual(p));
        });
    return slot == HashIndex::kNone ? nullptr : &slots_[slot];
}

}  // namespace rocemu::cm
