// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer target for the control socket: the input is what a client sends: messages of any type with fields that are
// near to what exists, records of any bytes, descriptors where none belong, rdma_cm commands; and MADs that arrive from
// the wire meanwhile. Each request is answered or the connection is closed, nothing is left of a client that went, and
// an honest client is served all the time. Server and shard are turned by the target itself: no waiting for threads.
#include <spdlog/spdlog.h>

#include "cm/mad.h"
#include "cm/service_id.h"
#include "support/control_world.h"
#include "support/wire_frames.h"
#include "tests/fuzz/input.h"

using namespace rocemu;
using namespace rocemu::test;
using rocemu::fuzz::check;
using rocemu::fuzz::Input;

namespace {

struct Kind {
    uint16_t type;
    size_t size;
};
constexpr Kind kKinds[] = {
#define MESSAGE(name, number) {number, sizeof(abi::name##Request)},
#include "abi/messages.def"
#undef MESSAGE
};

// Words that fields of requests are made of, beside small numbers: what exists.
constexpr uint32_t kTcpSpace = 0x106, kUdpSpace = 0x111, kFamilyAndPort = 7000 | 4u << 16;
constexpr uint32_t kMappedIp = 0xffff0000, kFirstIp = 0x0100cb0a, kSecondIp = 0x0200cb0a;  // as they lie in memory

class Client {
  public:
    Client(ControlWorld& world, Input in) : world_(world), c_(world.path(), [this] { world_.turn(); }), in_(in) {
        check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, channel_) == 0);
    }
    ~Client() {
        for (const int fd : channel_) close(fd);
    }
    void run() {
        const uint8_t start = in_.byte();
        if (start & 1)
            c_.open(start >> 1 & 1);
        else if (start & 2)
            (void)c_.hello(start & 4);
        if (c_.status == 0 && (start & 8)) {
            abi::CreateQpReply made;
            if (c_.call(c_.qp_request(), made) == 0) qpn_ = made.qpn;
            (void)c_.call(abi::CmOpenChannelRequest{}, channel_[1]);
        }
        while (in_.size > 0) step();
        // Whatever was sent has been looked at when this is answered, or the connection is closed.
        abi::ListDeviceRequest last;
        abi::MessageHeader h;
        std::vector<char> record(sizeof h + sizeof last);
        h.type = static_cast<uint16_t>(abi::MessageType::ListDevice);
        h.request_id = kLast;
        std::memcpy(record.data(), &h, sizeof h);
        std::memcpy(record.data() + sizeof h, &last, sizeof last);
        while (!c_.send_bytes(record.data(), record.size()))
            if (!read_one()) return;
        while (read_one()) {
        }
    }

  private:
    static constexpr uint32_t kLast = 0xffffffff;

    // False: it was the last one, or there will be none.
    bool read_one() {
        char reply[4096];
        uint32_t id = 0;
        return c_.receive(reply, sizeof reply, &id) != -1 && id != kLast;
    }
    void step() {
        const uint8_t how = in_.byte();
        if (how == 0x7f) return mad();
        std::vector<uint8_t> record;
        if (how & 0x80) {  // any bytes
            record.resize(in_.byte());
            in_.fill(record.data(), record.size());
        } else {
            const Kind& kind = kKinds[in_.byte() % std::size(kKinds)];
            abi::MessageHeader h;
            h.type = kind.type;
            h.request_id = 1 + (how & 15);
            record.resize(sizeof h + kind.size + (how & 0x40 ? in_.byte() % 16 : 0));
            std::memcpy(record.data(), &h, sizeof h);
            if (how & 0x20 && record.size() > sizeof h) record.resize(sizeof h + in_.byte() % kind.size);
            const uint8_t fields = in_.byte();
            for (size_t i = 0; i < fields % 32u; ++i) {
                const size_t at = sizeof h + in_.byte() % 32 * 4u;
                const uint32_t value = field();
                if (at + 4 <= record.size()) std::memcpy(&record[at], &value, 4);
            }
        }
        // A client that does not read is not served for ever.
        while (!c_.send_bytes(record.data(), record.size(), how & 0x10 ? channel_[1] : -1))
            if (!read_one()) break;
        world_.turn();
    }
    // Four bytes of a request: a small number mostly, as ids are.
    uint32_t field() {
        const uint8_t value = in_.byte();
        if (value >= 0xc0) return uint32_t{in_.byte()} << (value & 31);
        const uint32_t known[] = {c_.context, c_.pd,     c_.cq,    qpn_,          kTcpSpace, kUdpSpace,
                                  kMappedIp,  kFirstIp, kSecondIp, kFamilyAndPort, 0x2 << 16 | kTcpSpace};
        return value >= 0xb0 && value - 0xb0u < std::size(known) ? known[value - 0xb0] : value;
    }
    // From the other NIC's address, to the connection manager of the first one or the second one.
    void mad() {
        const uint8_t how = in_.byte();
        const uint32_t to = how & 1;
        wire::AddressVector route;
        route.src_mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(2 - to)};
        route.dst_mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(1 + to)};
        route.src_gid = wire::Gid::from_ipv4(0x0acb0002 - to);
        route.dst_gid = wire::Gid::from_ipv4(0x0acb0001 + to);
        cm::Mad content{};
        cm::MadHeader header;
        header.attribute_id = static_cast<uint16_t>(0x10 + (how >> 1) % 12);
        header.transaction_id = in_.byte();
        header.write(content);
        // Ids of the connections are small numbers, the services those of port 7000.
        std::byte* body = cm::body_of(content);
        in_.fill(body, std::min<size_t>(in_.byte(), cm::kMadSize - cm::MadHeader::kSize));
        if (how & 0x40) store_be<uint32_t>(body + 4, in_.byte());
        if (how & 0x80) store_be<uint64_t>(body + 8, cm::service_id_of({cm::PortSpace::Tcp, 7000}));
        wire::Bth bth;
        bth.opcode = static_cast<uint8_t>(wire::Opcode::UdSendOnly);
        bth.dest_qp = engine::kGsiQpn;
        wire::ExtHeaders ext;
        ext.deth = {engine::kGsiQkey, 1};
        world_.shard().send_mad(1 - to, make_frame(route, bth, ext, content));
        world_.turn();
    }

    ControlWorld& world_;
    ControlClient c_;
    Input in_;
    int channel_[2];
    uint32_t qpn_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // Taken down at exit, in reverse order: the threads end before the logger they use.
    static const bool quiet = (spdlog::set_level(spdlog::level::off), true);
    check(quiet);
    static ControlWorld world({}, ControlWorld::Drive::Turns);
    static ControlClient honest(world.path(), [] { world.turn(); });
    static int runs = 0;
    if (runs == 0) {
        honest.open();
        check(honest.status == 0);
    }
    Client(world, {data, std::min<size_t>(size, 2000)}).run();
    if (++runs % 16 == 0) {
        abi::CreateQpReply made;
        check(honest.call(honest.qp_request(), made) == 0);
        check(honest.call(abi::DestroyQpRequest{made.qpn}) == 0);
        for (const int fd : honest.fds) close(fd);
        honest.fds.clear();
    }
    return 0;
}
