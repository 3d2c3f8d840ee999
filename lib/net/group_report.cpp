// SPDX-License-Identifier: BSD-3-Clause
// See group_report.h. Both protocols want a hop limit of 1 and the router alert option (RFC 2113, RFC 2711).
#include "net/group_report.h"

#include "net/internet_checksum.h"
#include "net/multicast.h"
#include "wire/ipv6.h"

namespace rocemu::net {
namespace {

constexpr uint8_t kIgmp = 2, kHopByHop = 0;
constexpr uint8_t kIgmpReport = 0x22, kMldReport = 143;
constexpr size_t kMinimumFrame = 60;
constexpr size_t kIpv4Size = 24;  // with the option
constexpr size_t kRecordHead = 8;  // of the report, in front of its records
constexpr uint32_t kAllIgmpRouters = 0xe0000016;  // 224.0.0.22
constexpr wire::Gid kAllMldRouters{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16}};

}  // namespace

GroupReport::GroupReport(const wire::MacAddress& our_mac, const wire::Gid& source, const wire::Gid& group, GroupChange change) {
    if (group.is_ipv4_mapped())
        igmp(our_mac, source, group, change);
    else
        mld(our_mac, source, group, change);
}

void GroupReport::igmp(const wire::MacAddress& our_mac, const wire::Gid& source, const wire::Gid& group, GroupChange change) {
    constexpr size_t kReport = kRecordHead + 8;
    size_ = kMinimumFrame;  // 54 bytes are less than Ethernet has at least
    const wire::Gid routers = wire::Gid::from_ipv4(kAllIgmpRouters);
    wire::EthHeader{multicast_mac(routers), our_mac, wire::kEtherTypeIpv4}.write(bytes_.data());
    std::byte* ip = bytes_.data() + wire::EthHeader::kSize;
    ip[0] = std::byte{0x46};
    ip[1] = std::byte{0xc0};  // RFC 3376 4: internetwork control
    store_be<uint16_t>(ip + 2, kIpv4Size + kReport);
    store_be<uint16_t>(ip + 6, 0x4000);  // not to be cut into fragments
    ip[8] = std::byte{1};
    ip[9] = std::byte{kIgmp};
    store_be<uint32_t>(ip + 12, source.ipv4());
    store_be<uint32_t>(ip + 16, kAllIgmpRouters);
    store_be<uint32_t>(ip + 20, 0x94040000);
    store_be<uint16_t>(ip + 10, internet_checksum({ip, kIpv4Size}));
    std::byte* report = ip + kIpv4Size;
    report[0] = std::byte{kIgmpReport};
    store_be<uint16_t>(report + 6, 1);
    report[kRecordHead] = static_cast<std::byte>(change);
    store_be<uint32_t>(report + kRecordHead + 4, group.ipv4());
    store_be<uint16_t>(report + 2, internet_checksum({report, kReport}));
}

void GroupReport::mld(const wire::MacAddress& our_mac, const wire::Gid& source, const wire::Gid& group, GroupChange change) {
    constexpr size_t kOption = 8, kReport = kRecordHead + 20;
    size_ = kMaxSize;
    wire::EthHeader{multicast_mac(kAllMldRouters), our_mac, wire::kEtherTypeIpv6}.write(bytes_.data());
    wire::Ipv6Header ip;
    ip.payload_length = kOption + kReport;
    ip.next_header = kHopByHop;
    ip.hop_limit = 1;
    ip.src = source;
    ip.dst = kAllMldRouters;
    ip.write(bytes_.data() + wire::EthHeader::kSize);
    std::byte* option = bytes_.data() + wire::EthHeader::kSize + wire::Ipv6Header::kSize;
    option[0] = std::byte{kIcmpv6};
    store_be<uint32_t>(option + 2, 0x05020000);  // router alert: for MLD
    option[6] = std::byte{1};                    // padding
    std::byte* report = option + kOption;
    report[0] = std::byte{kMldReport};
    store_be<uint16_t>(report + 6, 1);
    report[kRecordHead] = static_cast<std::byte>(change);
    group.write(report + kRecordHead + 4);
    store_be<uint16_t>(report + 2, icmpv6_checksum(source, kAllMldRouters, {report, kReport}));
}

}  // namespace rocemu::net
