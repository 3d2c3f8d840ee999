// SPDX-License-Identifier: BSD-3-Clause
// See eal.h.
#include "pmd/eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <sched.h>

#include <csignal>

namespace rocemu::pmd {

namespace {

// The calling thread becomes DPDK's main lcore but stays free to run wherever it was: shards are threads of their own.
std::string floating_main_lcore() {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    std::string cpus;
    for (int i = 0; i < CPU_SETSIZE; ++i)
        if (CPU_ISSET(i, &set)) cpus += (cpus.empty() ? "" : ",") + std::to_string(i);
    return "0@(" + cpus + ")";
}

}  // namespace

std::unique_ptr<Eal> Eal::start(const EalOptions& options, std::string& error) {
    std::signal(SIGPIPE, SIG_IGN);
    std::vector<std::string> args{options.program, "--lcores", floating_main_lcore(), "--no-telemetry",
                                  "--log-level=warning"};
    if (options.huge_pages) {
        args.insert(args.end(), {"--in-memory"});
    } else {
        // --in-memory would be the better word, but 22.11 rejects it together with --no-huge.
        args.insert(args.end(), {"--no-huge", "--no-shconf"});
    }
    args.insert(args.end(), {"-m", std::to_string(options.memory_mib)});
    if (options.pci.empty()) args.emplace_back("--no-pci");
    for (const auto& address : options.pci) args.insert(args.end(), {"-a", address});
    args.insert(args.end(), options.extra.begin(), options.extra.end());
    std::vector<char*> argv;
    for (auto& a : args) argv.push_back(a.data());
    if (rte_eal_init(static_cast<int>(argv.size()), argv.data()) < 0) {
        error = std::string("DPDK does not start: ") + rte_strerror(rte_errno);
        return nullptr;
    }
    return std::unique_ptr<Eal>(new Eal());
}

Eal::~Eal() {
    rte_eal_cleanup();
}

}  // namespace rocemu::pmd
