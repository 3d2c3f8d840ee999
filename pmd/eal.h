// SPDX-License-Identifier: BSD-3-Clause
// Eal: starts DPDK's environment once a process, as an ordinary user and without huge pages unless told otherwise.
// Must be alive before any MbufPool or DpdkPort is made and until the last of them is gone. SIGPIPE is ignored from
// here on: net_virtio_user dies of it when its peer leaves.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rocemu::pmd {

struct EalOptions {
    std::string program = "rocemud";
    uint32_t memory_mib = 512;       // all mbuf pools live in it; pages are touched as they are used
    bool huge_pages = false;         // false: --no-huge
    std::vector<std::string> pci;    // to probe: address[,driver arguments]; empty: --no-pci
    std::vector<std::string> extra;  // further EAL arguments, last
};

class Eal {
  public:
    // nullptr and a one-line reason in `error` if DPDK does not start.
    static std::unique_ptr<Eal> start(const EalOptions& options, std::string& error);
    ~Eal();
    Eal(const Eal&) = delete;
    Eal& operator=(const Eal&) = delete;

  private:
    Eal() = default;
};

}  // namespace rocemu::pmd
