// SPDX-License-Identifier: BSD-3-Clause
// What the files of a SysfsView contain: per device its identity, port, GIDs with types and interfaces, P_Keys and
// counters, in the formats of Linux. Values are those that verbs reports.
#include <cstdio>

#include "control/control.h"
#include "control/device_attributes.h"
#include "control/sysfs_view.h"
#include "stats/counters.h"

namespace rocemu::control {
namespace {

using Files = std::map<std::string, std::string>;

template <typename... Args>
std::string format(const char* pattern, Args... args) {
    char text[128];
    std::snprintf(text, sizeof text, pattern, args...);
    return text;
}

std::string guid_text(uint64_t guid) {
    return format("%04x:%04x:%04x:%04x\n", static_cast<unsigned>(guid >> 48),
                  static_cast<unsigned>(guid >> 32 & 0xffff), static_cast<unsigned>(guid >> 16 & 0xffff),
                  static_cast<unsigned>(guid & 0xffff));
}

// "100 Gb/sec (4X EDR)": of the width and speed that query_port gives.
std::string rate_text(const abi::QueryPortReply& port) {
    struct Name {
        uint32_t speed;
        double gbps;
        const char* name;
    };
    constexpr Name kNames[] = {{1, 2.5, "SDR"}, {2, 5, "DDR"}, {8, 10, "FDR10"},
                              {32, 25, "EDR"}, {64, 50, "HDR"}, {128, 100, "NDR"}};
    const uint32_t lanes = port.active_width == 2 ? 4 : port.active_width == 16 ? 2 : 1;
    for (const auto& n : kNames)
        if (n.speed == port.active_speed) return format("%g Gb/sec (%uX %s)\n", n.gbps * lanes, lanes, n.name);
    return "0 Gb/sec\n";
}

uint64_t sum(Control& control, const Device& device, stats::Counter counter) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < control.shards.size(); ++i) {
        total += control.shards.shard(i).counters(device.id()).get(counter);
        if (device.fabric_nic()) total += control.fabric->port(*device.fabric_nic(), i).counters().get(counter);
    }
    return total;
}

void counters(Control& control, const Device& device, const std::string& port, Files& files) {
    using stats::Counter;
    const auto number = [](uint64_t v) { return std::to_string(v) + "\n"; };
    for (size_t c = 0; c < stats::kCounterCount; ++c)
        files[port + "hw_counters/" + std::string(stats::kCounters[c].name)] =
            number(sum(control, device, static_cast<Counter>(c)));
    // IBTA 16.1.3.5: data counters count words of four bytes.
    files[port + "counters/port_xmit_data"] = number(sum(control, device, Counter::tx_bytes) / 4);
    files[port + "counters/port_rcv_data"] = number(sum(control, device, Counter::rx_bytes) / 4);
    files[port + "counters/port_xmit_packets"] = number(sum(control, device, Counter::tx_packets));
    files[port + "counters/port_rcv_packets"] = number(sum(control, device, Counter::rx_packets));
    files[port + "counters/port_rcv_errors"] =
        number(sum(control, device, Counter::rx_malformed) + sum(control, device, Counter::rx_icrc_encapsulated));
    for (const char* zero : {"symbol_error", "link_error_recovery", "link_downed", "port_xmit_discards",
                             "port_xmit_wait", "port_rcv_remote_physical_errors", "port_xmit_constraint_errors",
                             "port_rcv_constraint_errors", "local_link_integrity_errors", "VL15_dropped"})
        files[port + "counters/" + zero] = "0\n";
}

void gids(const Device& device, const std::string& port, Files& files) {
    for (uint32_t i = 0; i < device.gids().capacity(); ++i) {
        const auto* entry = device.gids().at(i);
        if (!entry) continue;
        const std::string index = std::to_string(i);
        files[port + "gids/" + index] = wire::to_string(entry->gid) + "\n";
        files[port + "gid_attrs/types/" + index] =
            entry->version == net::RoceVersion::V1 ? "IB/RoCE v1\n" : "RoCE v2\n";
        // A device without a kernel interface has no name to give: the file is missing.
        const auto netdev = device.netdev_of(*entry);
        if (!netdev.name.empty()) files[port + "gid_attrs/ndevs/" + index] = netdev.name + "\n";
    }
}

void port_files(Control& control, const Device& device, const std::string& port, Files& files) {
    const auto attr = port_attributes(device);
    files[port + "state"] = device.link_up() ? "4: ACTIVE\n" : "1: DOWN\n";
    files[port + "phys_state"] = device.link_up() ? "5: LinkUp\n" : "3: Disabled\n";
    files[port + "rate"] = rate_text(attr);
    files[port + "link_layer"] = "Ethernet\n";
    files[port + "lid"] = files[port + "sm_lid"] = "0x0\n";
    files[port + "lid_mask_count"] = files[port + "sm_sl"] = "0\n";
    files[port + "cap_mask"] = format("0x%08x\n", attr.port_cap_flags);
    files[port + "pkeys/0"] = "0xffff\n";
    gids(device, port, files);
    counters(control, device, port, files);
}

void device_files(Control& control, const Device& device, Files& files) {
    const auto attr = device_attributes(device, control.config.limits, control.shards.size());
    const std::string dir = "sys/class/infiniband/" + device.name() + "/";
    files[dir + "node_type"] = "1: CA\n";
    files[dir + "node_guid"] = guid_text(attr.node_guid);
    files[dir + "sys_image_guid"] = guid_text(attr.sys_image_guid);
    files[dir + "node_desc"] = "rocemu " + device.name() + "\n";
    files[dir + "fw_ver"] = std::string(attr.fw_ver) + "\n";
    files[dir + "hw_rev"] = format("%x\n", attr.hw_ver);
    files[dir + "hca_type"] = "rocemu\n";
    files[dir + "board_id"] = "rocemu\n";
    files[dir + "device/vendor"] = format("0x%06x\n", attr.vendor_id);
    files[dir + "device/device"] = format("0x%04x\n", attr.vendor_part_id);
    files[dir + "device/numa_node"] = "-1\n";
    if (!device.netdev().empty()) files[dir + "device/net/" + device.netdev() + "/dev_port"] = "0\n";
    port_files(control, device, dir + "ports/1/", files);

    const std::string number = std::to_string(device.id());
    const std::string verbs = "sys/class/infiniband_verbs/uverbs_" + device.name() + "/";
    files[verbs + "ibdev"] = device.name() + "\n";
    files[verbs + "abi_version"] = "1\n";
    files["dev/infiniband/uverbs_" + device.name()] = "";
    const std::string mad = "sys/class/infiniband_mad/umad" + number + "/";
    files[mad + "ibdev"] = device.name() + "\n";
    files[mad + "port"] = "1\n";
}

}  // namespace

Files sysfs_files(Control& control) {
    Files files;
    files["sys/class/infiniband_verbs/abi_version"] = "6\n";
    files["sys/class/infiniband_mad/abi_version"] = "5\n";
    files["sys/class/misc/rdma_cm/abi_version"] = "4\n";
    files["dev/infiniband/rdma_cm"] = "";
    for (const auto& device : control.devices) device_files(control, *device, files);
    return files;
}

}  // namespace rocemu::control
