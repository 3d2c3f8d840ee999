// SPDX-License-Identifier: BSD-3-Clause
// Bindings: which owner has which (port space, address, port), and which of them listen. Rules of bind(2): a wildcard
// overlaps every address of its family, :: overlaps IPv4 too unless it is restricted to IPv6; what overlaps excludes
// each other unless both allow reuse, and never may two of them listen. Read IBTA annex A11 for what a port means here.
#pragma once

#include <vector>

#include "cm/config.h"
#include "cm/hash_index.h"
#include "cm/params.h"

namespace rocemu::cm {

struct Binding {
    BindingId id = 0;  // 0: slot unused
    OwnerId owner = 0;
    BindParams params;  // with the port that was chosen
    bool listening = false;
    uint32_t backlog = 0;
    uint32_t pending = 0;  // requests whose event was not fetched yet
};

class Bindings {
  public:
    explicit Bindings(const Config& config);

    // InvalidArgument, AddressInUse, NoResources. Privileges and quotas are checked by the caller.
    [[nodiscard]] Result<Binding*> bind(OwnerId owner, const BindParams& params);
    // AddressInUse if an overlapping binding listens already.
    Status listen(Binding& binding, uint32_t backlog);
    void unbind(Binding& binding);

    [[nodiscard]] Binding* find(BindingId id);
    // The listener for a request to `address`: the exact address, else the wildcard of its family, else ::.
    [[nodiscard]] Binding* find_listener(IpService service, const wire::Gid& address);

    [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(slots_.size() - free_.size()); }
    template <typename Use>
    void for_each(Use use) {
        for (auto& binding : slots_)
            if (binding.id != 0) use(binding);
    }

  private:
    [[nodiscard]] uint64_t hash(PortSpace space, uint16_t port) const;
    [[nodiscard]] bool is_free(const BindParams& wanted) const;
    [[nodiscard]] uint16_t choose_port(const BindParams& params);

    const Config& config_;
    uint64_t random_;
    std::vector<Binding> slots_;
    std::vector<uint16_t> generations_;
    std::vector<uint32_t> free_;
    HashIndex index_;
};

}  // namespace rocemu::cm
