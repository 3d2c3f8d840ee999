// SPDX-License-Identifier: BSD-3-Clause
// Machine: see machine.h. Composition only; what the parts do is in their own folders.
#include "machine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "abi/messages.h"
#include "control/log.h"
#include "pmd/vdev_args.h"
#include "wire/mac.h"

namespace rocemu::daemon {
namespace {

constexpr uint32_t kFabricMtu = 4200;  // active MTU 4096
constexpr uint32_t kFabricSpeedMbps = 100'000;
constexpr uint32_t kFrameOverhead = 512;  // mbuf, headroom, alignment

wire::MacAddress mac_of(const config::DeviceOptions& options, size_t index) {
    if (!options.mac.empty()) return *wire::parse_mac(options.mac);
    return {0x02, 0x52, 0x4f, 0, static_cast<uint8_t>((index + 1) >> 8), static_cast<uint8_t>(index + 1)};
}

bool is_pci(const std::string& port) {
    return !port.empty() && std::isxdigit(static_cast<unsigned char>(port[0])) && port.find(':') != port.npos;
}

// Each of two devices on one port would take the frames of both.
void refuse_shared_ports(const config::Config& config) {
    std::map<std::string, std::string> users;  // of a port, by device
    for (const auto& device : config.devices) {
        const pmd::VdevArgs args(device.port);
        const std::string port = args.is_pci() ? args.device() : args.get("iface");
        if (port.empty()) continue;
        const auto [user, first] = users.emplace(port, device.name);
        if (!first) throw std::runtime_error(device.name + ": " + port + " is the port of " + user->second + " already");
    }
}

fabric::Impairments impairments_of(const config::ImpairmentOptions& o) {
    const auto ppm = [](double share) { return static_cast<uint32_t>(std::lround(share * 1e6)); };
    fabric::Impairments i;
    i.seed = static_cast<uint64_t>(o.seed);
    i.drop_ppm = ppm(o.drop);
    i.duplicate_ppm = ppm(o.duplicate);
    i.reorder_ppm = ppm(o.reorder);
    i.corrupt_ppm = ppm(o.corrupt);
    i.delay = o.delay_us * kMicrosecond;
    return i;
}

}  // namespace

Machine::Machine(const config::Config& config)
    : config_(config), shard_count_(static_cast<uint32_t>(std::max<size_t>(config.daemon.lcores.size(), 1))) {
    if (shard_count_ > abi::kMaxShards)
        throw std::runtime_error("daemon.lcores: at most " + std::to_string(abi::kMaxShards));
    for (const int64_t cpu : config.daemon.lcores)
        if (!pmd::LcoreThread::allowed(static_cast<int>(cpu)))
            throw std::runtime_error("daemon.lcores: CPU " + std::to_string(cpu) +
                                     " does not exist, or this process may not run on it");
    refuse_shared_ports(config);
    start_eal();
    make_pool();
    inits_.resize(config.devices.size());
    real_.resize(config.devices.size());
    for (size_t i = 0; i < config.devices.size(); ++i) {
        const auto& options = config.devices[i];
        auto& init = inits_[i];
        init.name = options.name;
        init.port = options.port;
        init.addresses = options.addresses;
        init.mtu = static_cast<uint32_t>(options.mtu);
        init.cm_roce_v1 = options.rdma_cm == "v1";
        init.raw_packets = options.raw_packet == "on" || (options.raw_packet == "auto" && options.port == "fabric");
        const wire::MacAddress mac = mac_of(options, i);
        std::copy(mac.begin(), mac.end(), init.info.mac);
        if (options.port == "fabric")
            open_fabric(options, init);
        else
            open_dpdk(options, init);
    }
    make_shards();
}

Machine::~Machine() {
    stop();
    shards_.clear();  // before the ports and pools their frames go back to
}

void Machine::start_eal() {
    pmd::EalOptions options;
    options.memory_mib = static_cast<uint32_t>(config_.daemon.memory_mb) + 64;
    options.huge_pages = config_.daemon.pages == "huge";
    for (const auto& device : config_.devices)
        if (is_pci(device.port)) options.pci.push_back(device.port);
    std::string error;
    eal_ = pmd::Eal::start(options, error);
    if (!eal_) throw std::runtime_error(error);
}

void Machine::make_pool() {
    uint32_t room = pmd::MbufPool::kDefaultRoom;
    for (const auto& device : config_.devices)
        if (device.port != "fabric") room = std::max(room, pmd::DpdkPort::room_needed(device.port));
    const uint64_t bytes = static_cast<uint64_t>(config_.daemon.memory_mb) << 20;
    std::string error;
    pool_ = pmd::MbufPool::create("frames", static_cast<uint32_t>(bytes / (room + kFrameOverhead)), room, error);
    if (!pool_) throw std::runtime_error(error);
}

void Machine::open_fabric(const config::DeviceOptions& options, control::DeviceInit& init) {
    if (!switch_) switch_ = std::make_unique<fabric::Switch>(shard_count_);
    init.info.mtu = options.mtu ? static_cast<uint32_t>(options.mtu) : kFabricMtu;
    init.info.speed_mbps = kFabricSpeedMbps;
    wire::MacAddress mac{};
    std::copy(std::begin(init.info.mac), std::end(init.info.mac), mac.begin());
    if (init.info.mtu + 18 > pool_->room())
        throw std::runtime_error(init.name + ": mtu is larger than frames of the fabric");
    init.fabric_nic = switch_->add_nic(mac, init.info.mtu, *pool_);
    switch_->set_impairments(*init.fabric_nic, impairments_of(options.impairments));
}

void Machine::open_dpdk(const config::DeviceOptions& options, control::DeviceInit& init) {
    RealPort& real = real_[static_cast<size_t>(&init - inits_.data())];
    std::string error;
    real.port = pmd::DpdkPort::open(options.port, *pool_, error);
    if (!real.port) throw std::runtime_error(init.name + ": " + error);
    init.info = real.port->info();
    init.netdev = real.port->netdev();
    init.link = real.port.get();
    if (shard_count_ > 1) real.shared = std::make_unique<engine::SharedPort>(*real.port, *pool_, shard_count_);
}

void Machine::make_shards() {
    for (uint32_t i = 0; i < shard_count_; ++i) {
        engine::ShardConfig c;
        c.index = i;
        c.wait.mode = config_.daemon.wait == "dedicated" ? engine::WaitPolicy::Mode::Dedicated
                                                         : engine::WaitPolicy::Mode::Adaptive;
        c.icrc_check = config_.daemon.icrc == "strict";
        if (shard_count_ > 1) c.atomic_locks = &atomic_locks_;
        shards_.push_back(std::make_unique<engine::Shard>(c));
        for (size_t d = 0; d < inits_.size(); ++d) {
            engine::DeviceSetup setup;
            setup.id = static_cast<engine::DeviceId>(d);
            setup.name = inits_[d].name;
            setup.pool = pool_.get();
            if (inits_[d].fabric_nic)
                setup.port = &switch_->port(*inits_[d].fabric_nic, i);
            else
                setup.port = real_[d].shared ? &real_[d].shared->port(i) : real_[d].port.get();
            shards_.back()->add_device(setup);
        }
    }
}

void Machine::start() {
    for (uint32_t i = 0; i < shard_count_; ++i) {
        const int cpu =
            config_.daemon.lcores.empty() ? pmd::LcoreThread::kAnyCpu : static_cast<int>(config_.daemon.lcores[i]);
        threads_.push_back(std::make_unique<pmd::LcoreThread>(cpu, "rocemu-" + std::to_string(i),
                                                              [s = shards_[i].get()] { s->run(); }));
        if (cpu != pmd::LcoreThread::kAnyCpu && !threads_.back()->pinned())
            log::warn("shard {} could not be pinned to CPU {} and floats", i, cpu);
    }
}

void Machine::stop() {
    for (auto& shard : shards_) shard->stop();
    threads_.clear();
}

std::vector<engine::Shard*> Machine::shards() const {
    std::vector<engine::Shard*> list;
    for (const auto& shard : shards_) list.push_back(shard.get());
    return list;
}

std::vector<std::unique_ptr<control::Device>> Machine::make_devices() const {
    std::vector<std::unique_ptr<control::Device>> list;
    for (size_t i = 0; i < inits_.size(); ++i)
        list.push_back(std::make_unique<control::Device>(static_cast<uint32_t>(i), inits_[i]));
    return list;
}

}  // namespace rocemu::daemon
