// SPDX-License-Identifier: BSD-3-Clause
// See dpdk_port.h.
#include "pmd/dpdk_port.h"

#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <atomic>

#include "pmd/mbuf_frame.h"
#include "pmd/packet_waker.h"
#include "pmd/vdev_args.h"

namespace rocemu::pmd {

namespace {

constexpr uint16_t kDescriptors = 512;
constexpr size_t kBurst = 64;
// Of each af_packet ring: a full one loses frames, and UC and UD never send them again.
constexpr unsigned kRingBytes = 32u << 20;
constexpr unsigned kFewBytes = 512u << 10;  // where RLIMIT_MEMLOCK does not allow more
constexpr uint32_t kEthernetOverhead = 14 + 4;  // header and VLAN tag; frames carry no FCS
constexpr uint32_t kVirtioHeader = 12;  // net_virtio_user has it in front of a frame, in the same buffer

bool is_af_packet(const VdevArgs& args) {
    return args.driver() == "net_af_packet";
}

// The kernel interface a port is on. Of net_vhost iface= is a socket, of net_tap the kernel's own end of the wire.
std::string netdev_of(const VdevArgs& args) {
    return is_af_packet(args) || args.driver() == "net_af_xdp" ? args.get("iface") : std::string();
}

// Slots as large as the interface's frames, at most our own largest (longer foreign frames arrive cut, and are of no
// use to us anyway); eight to a block, which they must fill exactly. The two rings are locked memory.
void suit_af_packet(VdevArgs& args, unsigned ring_bytes) {
    const unsigned mtu = interface_mtu(args.get("iface"));
    const unsigned given = args.number("framesz", UINT16_MAX);
    const unsigned slot = given != 0 ? given : af_packet_frame_size(mtu ? mtu : 1500);
    args.set_default("framesz", std::to_string(slot));
    const unsigned block = std::max(slot * 8, 4096u);
    args.set_default("blocksz", std::to_string(block));
    args.set_default("framecnt", std::to_string(ring_bytes / block * 8));
    args.set_default("qpairs", "1");
}

std::string reason(const std::string& spec, const std::string& what, int code) {
    return "port \"" + spec + "\": " + what + ": " + rte_strerror(code < 0 ? -code : code);
}

// Unique vdev names: a spec without a number gets one.
std::string numbered(const std::string& device) {
    static std::atomic<unsigned> next{0};
    const bool has_number = !device.empty() && std::isdigit(static_cast<unsigned char>(device.back())) != 0;
    return has_number ? device : device + std::to_string(100 + next++);
}

}  // namespace

struct DpdkPort::Impl {
    uint16_t id = RTE_MAX_ETHPORTS;
    bool attached = false;  // hot-plugged by us
    bool pci = false;
    std::string name;  // of the device on its bus
    std::string netdev;
    std::unique_ptr<PacketWaker> waker;
    uint32_t room = 0;
    bool one_peer = false;  // once it has left, the link stays down
    std::atomic<bool> peer_left{false};
    std::atomic<uint64_t> too_long{0};

    // Everything after the device exists. Empty: ok.
    std::string configure(const std::string& spec, MbufPool& pool, bool promiscuous);
    ~Impl();
};

uint32_t DpdkPort::room_needed(const std::string& spec) {
    VdevArgs args(spec);
    if (!is_af_packet(args)) return MbufPool::kDefaultRoom;
    suit_af_packet(args, kRingBytes);
    // The driver wants a whole slot's payload to fit into one mbuf.
    return std::max<uint32_t>(MbufPool::kDefaultRoom, args.number("framesz", UINT16_MAX));
}

std::string DpdkPort::Impl::configure(const std::string& spec, MbufPool& pool, bool promiscuous) {
    rte_eth_dev_info info;
    if (const int e = rte_eth_dev_info_get(id, &info); e != 0) return reason(spec, "no device information", e);
    rte_eth_conf conf{};
    // Drivers without set_mtu follow the kernel interface; others are asked for what a pool's frame can hold.
    uint16_t mtu = 0;
    rte_eth_dev_get_mtu(id, &mtu);
    room = pool.room();
    const uint32_t most = info.max_mtu != 0 ? info.max_mtu : UINT16_MAX;
    const uint32_t wanted = std::min(room - kEthernetOverhead - kVirtioHeader, most);
    conf.rxmode.mtu = netdev.empty() && !pci && wanted > mtu ? static_cast<uint16_t>(std::min(wanted, 9000u)) : mtu;
    int e = rte_eth_dev_configure(id, 1, 1, &conf);
    if (e == -EINVAL && conf.rxmode.mtu != mtu) {  // net_memif allows 1500; other errors are not about it
        conf.rxmode.mtu = mtu;
        e = rte_eth_dev_configure(id, 1, 1, &conf);
    }
    if (e != 0) return reason(spec, "cannot be configured", e);
    uint16_t rx = kDescriptors, tx = kDescriptors;
    rte_eth_dev_adjust_nb_rx_tx_desc(id, &rx, &tx);
    const auto socket = static_cast<unsigned>(std::max(rte_eth_dev_socket_id(id), 0));
    if ((e = rte_eth_rx_queue_setup(id, 0, rx, socket, nullptr, pool.handle())) != 0)
        return reason(spec, "receive queue (frame room " + std::to_string(room) + ")", e);
    if ((e = rte_eth_tx_queue_setup(id, 0, tx, socket, nullptr)) != 0) return reason(spec, "send queue", e);
    if ((e = rte_eth_dev_start(id)) != 0) return reason(spec, "does not start", e);
    if (promiscuous) rte_eth_promiscuous_enable(id);
    return {};
}

DpdkPort::Impl::~Impl() {
    if (id == RTE_MAX_ETHPORTS) return;
    rte_eth_dev_stop(id);
    rte_eth_dev_close(id);
    if (attached) rte_eal_hotplug_remove(pci ? "pci" : "vdev", name.c_str());
}

std::unique_ptr<DpdkPort> DpdkPort::open(const std::string& spec, MbufPool& pool, std::string& error,
                                         bool promiscuous) {
    VdevArgs args(spec);
    auto impl = std::make_unique<Impl>();
    impl->netdev = netdev_of(args);
    impl->one_peer = args.driver() == "net_virtio_user" && args.get("server") != "1";
    if (is_af_packet(args)) {
        if (interface_mtu(impl->netdev) == 0) {
            error = "port \"" + spec + "\": no interface \"" + impl->netdev + "\"";
            return nullptr;
        }
        impl->waker = PacketWaker::open(impl->netdev);  // before the driver's socket, see packet_waker.h
    }
    impl->pci = args.is_pci();
    impl->name = impl->pci ? args.device() : numbered(args.device());
    if (rte_eth_dev_get_port_by_name(impl->name.c_str(), &impl->id) != 0) {
        const std::string bus = impl->pci ? "pci" : "vdev";
        VdevArgs suited = args;
        if (is_af_packet(args)) suit_af_packet(suited, kRingBytes);
        int e = rte_eal_hotplug_add(bus.c_str(), impl->name.c_str(), suited.arguments().c_str());
        if (e != 0 && is_af_packet(args)) {
            suited = args;
            suit_af_packet(suited, kFewBytes);
            e = rte_eal_hotplug_add(bus.c_str(), impl->name.c_str(), suited.arguments().c_str());
        }
        if (e != 0) {
            error = reason(spec, "cannot be opened", e);
            return nullptr;
        }
        impl->attached = true;
        if (rte_eth_dev_get_port_by_name(impl->name.c_str(), &impl->id) != 0) {
            impl->id = RTE_MAX_ETHPORTS;
            error = "port \"" + spec + "\" is not an Ethernet device";
            return nullptr;
        }
    }
    error = impl->configure(spec, pool, promiscuous);
    if (!error.empty()) return nullptr;
    return std::unique_ptr<DpdkPort>(new DpdkPort(std::move(impl)));
}

DpdkPort::DpdkPort(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DpdkPort::~DpdkPort() = default;

size_t DpdkPort::rx_burst(Instant, std::span<engine::Frame> frames) {
    rte_mbuf* mbufs[kBurst];
    const auto want = static_cast<uint16_t>(std::min(frames.size(), kBurst));
    const uint16_t n = rte_eth_rx_burst(impl_->id, 0, mbufs, want);
    size_t kept = 0;
    for (uint16_t i = 0; i < n; ++i) {
        // Frames in several segments (memif, vhost with mergeable buffers) are put into one; too long ones are lost.
        if (mbufs[i]->nb_segs != 1 && rte_pktmbuf_linearize(mbufs[i]) != 0) {
            impl_->too_long.fetch_add(1, std::memory_order_relaxed);
            rte_pktmbuf_free(mbufs[i]);
            continue;
        }
        frames[kept++] = frame_of(mbufs[i]);
    }
    return kept;
}

size_t DpdkPort::tx_burst(Instant, std::span<engine::Frame> frames) {
    rte_mbuf* mbufs[kBurst];
    const size_t n = std::min(frames.size(), kBurst);
    for (size_t i = 0; i < n; ++i) {
        mbufs[i] = mbuf_of(frames[i]);
        mbufs[i]->ol_flags = 0;
        // IEEE 802.3: shorter frames are padded; not every virtual device does it.
        if (mbufs[i]->data_len < 60) {
            const auto missing = static_cast<uint16_t>(60 - mbufs[i]->data_len);
            if (char* pad = rte_pktmbuf_append(mbufs[i], missing); pad != nullptr) std::fill_n(pad, missing, '\0');
        }
    }
    return rte_eth_tx_burst(impl_->id, 0, mbufs, static_cast<uint16_t>(n));
}

int DpdkPort::wake_fd() const {
    return impl_->waker ? impl_->waker->fd() : -1;
}
void DpdkPort::prepare_sleep() {
    if (impl_->waker) impl_->waker->drain();
}

engine::PortInfo DpdkPort::info() const {
    engine::PortInfo info;
    rte_ether_addr mac{};
    rte_eth_macaddr_get(impl_->id, &mac);
    std::copy(std::begin(mac.addr_bytes), std::end(mac.addr_bytes), info.mac);
    uint16_t mtu = 0;
    rte_eth_dev_get_mtu(impl_->id, &mtu);
    // The kernel interface's MTU is what counts on it, whatever the driver believes.
    const uint32_t interface = impl_->netdev.empty() ? 0 : interface_mtu(impl_->netdev);
    info.mtu = std::min<uint32_t>(interface != 0 ? interface : mtu, impl_->room - kEthernetOverhead);
    if (impl_->peer_left.load(std::memory_order_relaxed)) {  // each further look is an error message of the driver
        info.link_up = false;
        return info;
    }
    rte_eth_link link{};
    rte_eth_link_get_nowait(impl_->id, &link);
    if (impl_->one_peer && link.link_status != RTE_ETH_LINK_UP) impl_->peer_left.store(true, std::memory_order_relaxed);
    info.link_up = link.link_status == RTE_ETH_LINK_UP;
    info.speed_mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
    return info;
}

const std::string& DpdkPort::netdev() const {
    return impl_->netdev;
}

}  // namespace rocemu::pmd
