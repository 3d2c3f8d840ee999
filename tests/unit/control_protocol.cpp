// SPDX-License-Identifier: BSD-3-Clause
// The control socket itself: hello and versions, who may ask what, nonsense, GID table, modify_qp's addresses, events,
// a second daemon, stale sockets.
#include <sys/resource.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "abi/socket_path.h"
#include "support/control_world.h"

using namespace rocemu;
using namespace rocemu::test;
using Catch::Matchers::Contains;

namespace {

abi::ModifyQpRequest to_init(uint32_t qpn) {
    namespace mask = qp_attr_mask;
    abi::ModifyQpRequest r;
    r.qpn = qpn;
    r.mask = mask::kState | mask::kPkeyIndex | mask::kPort | mask::kAccessFlags;
    r.attr.state = static_cast<uint32_t>(QpState::Init);
    r.attr.port_num = 1;
    return r;
}
abi::ModifyQpRequest to_rtr(uint32_t qpn, const char* dgid) {
    namespace mask = qp_attr_mask;
    abi::ModifyQpRequest r;
    r.qpn = qpn;
    r.mask = mask::kState | mask::kAv | mask::kPathMtu | mask::kDestQpn | mask::kRqPsn | mask::kMaxDestRdAtomic |
             mask::kMinRnrTimer;
    r.attr.state = static_cast<uint32_t>(QpState::Rtr);
    r.attr.path_mtu = 5;
    r.attr.dest_qpn = 0x123;
    r.attr.is_global = 1;
    r.attr.ah_port = 1;
    r.attr.sgid_index = 3;
    const auto gid = *wire::parse_gid(dgid);
    std::copy(gid.raw.begin(), gid.raw.end(), r.attr.dgid);
    return r;
}

// UBSan asks by a pipe whether an object's memory can be read: without descriptors it takes every object for a wrong one.
#if !defined(__has_feature)
#define __has_feature(x) 0
#endif
constexpr bool kNeedsDescriptors = __has_feature(undefined_behavior_sanitizer);

// As long as it lives this process, daemon and clients, has room for `more` descriptors.
class FewDescriptors {
  public:
    explicit FewDescriptors(int more) {
        getrlimit(RLIMIT_NOFILE, &before_);
        std::vector<control::UniqueFd> taken;
        for (int i = 0; i <= more; ++i) taken.emplace_back(dup(STDIN_FILENO));
        const rlimit lower{static_cast<rlim_t>(taken.back().get()), before_.rlim_max};
        taken.clear();
        setrlimit(RLIMIT_NOFILE, &lower);
    }
    ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
    FewDescriptors(const FewDescriptors&) = delete;
    FewDescriptors& operator=(const FewDescriptors&) = delete;

  private:
    rlimit before_{};
};

}  // namespace

TEST_CASE("a daemon without descriptors refuses what needs one, and no session ends of it") {
    if (kNeedsDescriptors) {
        WARN("not with UBSan, which needs descriptors itself");
        return;
    }
    // Turned by the test: nobody else takes a descriptor meanwhile.
    ControlWorld world({}, ControlWorld::Drive::Turns);
    const auto turn = [&] { world.turn(); };
    ControlClient c(world.path(), turn), late(world.path(), turn);
    c.open();
    REQUIRE(c.status == 0);
    REQUIRE(late.call(abi::ListDeviceRequest{0}) == EPROTO);  // accepted
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    abi::RegMrRequest mr;
    mr.pd = c.pd;
    mr.length = 1;
    for (int room = 0; room < 3; ++room) {
        const FewDescriptors few(room);
        CHECK(late.hello() == EMFILE);
        if (room != 0) continue;
        CHECK(c.call(abi::CreateChannelRequest{c.context}, pair[1]) == EMFILE);
        CHECK(c.call(mr, pair[1]) == 0);
    }
    CHECK(c.call(abi::CreateChannelRequest{c.context}, pair[1]) == 0);
    CHECK(late.hello() == 0);
    close(pair[0]);
    close(pair[1]);
}

TEST_CASE("the view is open to those who may attach, whatever the umask") {
    namespace fs = std::filesystem;
    const mode_t before = umask(0077);
    const ControlWorld world([](config::Config& c) { c.daemon.socket_mode = 0666; });
    umask(before);
    const fs::path root = abi::view_directory(world.path());
    const auto is_open = [](const fs::path& path, bool directory) {
        const auto needed = fs::perms::others_read | (directory ? fs::perms::others_exec : fs::perms::none);
        return (fs::status(path).permissions() & needed) == needed;
    };
    CHECK(is_open(root, true));
    size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
        INFO(entry.path());
        CHECK(is_open(entry.path(), entry.is_directory()));
        files += entry.is_regular_file();
    }
    CHECK(files > 20);
}

TEST_CASE("hello: another version is told apart from nonsense") {
    ControlWorld world;
    ControlClient c(world.path());
    abi::HelloRequest r;
    r.version_major = abi::kVersionMajor + 1;
    CHECK(c.call(r) == EPROTONOSUPPORT);
    struct {
        abi::MessageHeader h;
        uint16_t major = abi::kVersionMajor + 1;
        uint16_t more = 0;
    } shorter;
    shorter.h.type = static_cast<uint16_t>(abi::MessageType::Hello);
    c.send_bytes(&shorter, sizeof shorter);
    CHECK(c.receive(nullptr, 0) == EPROTONOSUPPORT);
    shorter.major = abi::kVersionMajor;
    c.send_bytes(&shorter, sizeof shorter);
    CHECK(c.receive(nullptr, 0) == EPROTO);
    CHECK(c.hello() == 0);
    CHECK(c.hello() == EPROTO);
}

TEST_CASE("before hello nothing, and tools and programs each their own") {
    ControlWorld world;
    ControlClient c(world.path()), tool(world.path());
    CHECK(c.call(abi::ListDeviceRequest{0}) == EPROTO);
    CHECK(c.hello() == 0);
    CHECK(c.call(abi::AdminTextRequest{}) == EPERM);
    CHECK(tool.hello(true) == 0);
    CHECK(tool.welcome.region0_bytes == 0);
    CHECK(tool.call(abi::OpenContextRequest{0}) == EPERM);
    abi::ListDeviceReply d;
    CHECK(tool.call(abi::ListDeviceRequest{1}, d) == 0);
    CHECK(std::string(d.name) == "rocemu1");
    CHECK(tool.call(abi::ListDeviceRequest{2}, d) == ENOENT);
}

TEST_CASE("as many programs as limits.max_sessions, told so, and tools besides") {
    ControlWorld world([](config::Config& c) { c.limits.max_sessions = 1; });
    ControlClient first(world.path()), second(world.path()), tool(world.path());
    REQUIRE(first.hello() == 0);
    CHECK(second.hello() == EUSERS);
    CHECK(tool.hello(true) == 0);
    first.disconnect();
    int status = EUSERS;
    for (int i = 0; i < 1000 && status == EUSERS; ++i) {  // until the first has left the shard
        usleep(10'000);
        status = second.hello();
    }
    CHECK(status == 0);
}

TEST_CASE("a client whose memory cannot be reached is refused") {
    ControlWorld world;
    ControlClient none(world.path()), agent(world.path());
    CHECK(none.hello(false, 0) == EPERM);
    CHECK(agent.hello(false, abi::kFeatureAgent) == 0);
    CHECK(agent.welcome.payload_path == abi::kPathAgent);
    CHECK(agent.welcome.agent_offset != 0);
}

TEST_CASE("nonsense ends or is refused, and disturbs nobody") {
    ControlWorld world;
    ControlClient honest(world.path());
    honest.open();
    REQUIRE(honest.status == 0);
    {
        ControlClient c(world.path());
        c.send_bytes("garbage, no header", 18);
        CHECK(c.receive(nullptr, 0) == -1);
    }
    {
        ControlClient c(world.path());
        REQUIRE(c.hello() == 0);
        abi::MessageHeader h;
        h.type = 9999;
        c.send_bytes(&h, sizeof h);
        CHECK(c.receive(nullptr, 0) == EPROTO);
        h.type = static_cast<uint16_t>(abi::MessageType::CreateQp);
        c.send_bytes(&h, sizeof h);
        CHECK(c.receive(nullptr, 0) == EPROTO);
        CHECK(c.call(abi::OpenContextRequest{77}) == ENODEV);
        CHECK(c.call(abi::QueryPortRequest{1234, 1}) == EINVAL);
    }
    {
        ControlClient c(world.path());
        std::vector<char> large(abi::kMaxMessageBytes + 100);
        abi::MessageHeader h;
        std::memcpy(large.data(), &h, sizeof h);
        c.send_bytes(large.data(), large.size());
        CHECK(c.receive(nullptr, 0) == -1);
    }
    CHECK(honest.call(abi::QueryDeviceRequest{honest.context}) == 0);
}

TEST_CASE("GID table as queried") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open(1);
    REQUIRE(c.status == 0);
    abi::QueryGidReply r;
    REQUIRE(c.call(abi::QueryGidRequest{c.context, 1, 0}, r) == 0);
    CHECK(r.total == 256);
    CHECK(r.count == abi::kGidsPerReply);
    CHECK(r.gids[0].type == static_cast<uint32_t>(abi::GidType::RoceV1));
    CHECK(r.gids[3].type == static_cast<uint32_t>(abi::GidType::RoceV2));
    CHECK(r.gids[3].gid[15] == 2);
    CHECK(r.gids[4].type == 0);
    REQUIRE(c.call(abi::QueryGidRequest{c.context, 1, 256}, r) == 0);
    CHECK(r.count == 0);
    CHECK(c.call(abi::QueryGidRequest{c.context, 2, 0}, r) == EINVAL);
}

TEST_CASE("modify_qp: addresses are resolved, refused, or time out while others are served") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    abi::CreateQpReply qp;
    REQUIRE(c.call(c.qp_request(), qp) == 0);
    auto init = to_init(qp.qpn);
    init.attr.port_num = 2;
    CHECK(c.call(init) == EINVAL);
    CHECK(c.call(to_rtr(qp.qpn, "10.203.0.2")) == EINVAL);  // from RESET: no such transition
    REQUIRE(c.call(to_init(qp.qpn)) == 0);

    auto bad = to_rtr(qp.qpn, "10.203.0.2");
    bad.attr.sgid_index = 1;  // IPv6, and the destination is IPv4
    CHECK(c.call(bad) == EINVAL);
    bad.attr.sgid_index = 200;
    CHECK(c.call(bad) == EINVAL);
    bad = to_rtr(qp.qpn, "10.203.0.2");
    bad.attr.is_global = 0;
    CHECK(c.call(bad) == EINVAL);
    CHECK(c.call(to_rtr(qp.qpn, "2001:db8::1")) == EINVAL);

    c.post(to_rtr(qp.qpn, "10.203.0.77"));  // nobody has it: answered after three requests
    abi::QueryPortReply port;
    CHECK(c.call(abi::QueryPortRequest{c.context, 1}, port) == 0);
    abi::ModifyQpReply m;
    CHECK(c.receive(&m, sizeof m) == ETIMEDOUT);

    REQUIRE(c.call(to_rtr(qp.qpn, "10.203.0.2"), m) == 0);
    CHECK(m.attr.state == static_cast<uint32_t>(QpState::Rtr));
    CHECK(m.attr.dest_qpn == 0x123);
}

TEST_CASE("a channel's socket that nobody reads holds up nothing; channels in use are busy") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    abi::CreateChannelReply channel;
    CHECK(c.call(abi::CreateChannelRequest{c.context}, channel) == EINVAL);
    CHECK(c.call(abi::CreateChannelRequest{c.context}, channel, STDIN_FILENO) == EINVAL);
    REQUIRE(c.call(abi::CreateChannelRequest{c.context}, channel, pair[1]) == 0);
    abi::CreateCqRequest r;
    r.context = c.context;
    r.cqe = 4;
    r.channel = channel.channel;
    abi::CreateCqReply cq;
    REQUIRE(c.call(r, cq) == 0);
    CHECK(c.call(abi::DestroyChannelRequest{channel.channel}) == EBUSY);
    CHECK(c.call(abi::DestroyCqRequest{cq.cq}) == 0);
    CHECK(c.call(abi::DestroyChannelRequest{channel.channel}) == 0);
    char byte;
    close(pair[1]);
    CHECK(recv(pair[0], &byte, 1, MSG_DONTWAIT) == 0);  // the daemon's end is closed
    close(pair[0]);
}

TEST_CASE("an outbox keeps what does not fit, merges what repeats, and loses nothing") {
    control::EventLoop loop;
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    {
        control::EventOutbox box(loop, control::UniqueFd(pair[1]));
        for (uint64_t i = 0; i < 2000; ++i) box.post(std::as_bytes(std::span(&i, 1)), true);
        const uint64_t again = 1999;
        for (int i = 0; i < 100; ++i) box.post(std::as_bytes(std::span(&again, 1)), true);
        uint64_t expected = 0, value = 0;
        while (expected < 2000) {
            if (recv(pair[0], &value, sizeof value, MSG_DONTWAIT) == sizeof value) {
                REQUIRE(value == expected);
                ++expected;
            } else {
                loop.turn(kMillisecond);
            }
        }
        loop.turn(kMillisecond);
        CHECK(recv(pair[0], &value, sizeof value, MSG_DONTWAIT) < 0);
    }
    close(pair[0]);
}

TEST_CASE("a second daemon is refused, a dead one's socket is taken over, a file is not") {
    ControlWorld world;
    config::DaemonOptions options;
    CHECK_THROWS_WITH(control::Listener(world.path(), options), Contains("already running"));
    const std::string stale = world.path() + ".stale";
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    std::strcpy(a.sun_path, stale.c_str());
    REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0);
    close(fd);
    options.socket_mode = 0640;
    {
        control::Listener taken(stale, options);
        struct stat s {};
        REQUIRE(stat(stale.c_str(), &s) == 0);
        CHECK((s.st_mode & 0777) == 0640);
    }
    CHECK(access(stale.c_str(), F_OK) != 0);
    std::ofstream(stale) << "mine";
    CHECK_THROWS_WITH(control::Listener(stale, options), Contains("no socket"));
    unlink(stale.c_str());
    unlink((stale + ".lock").c_str());
    options.socket_owner = "no-such-user";
    CHECK_THROWS_WITH(control::Listener(stale, options), Contains("no-such-user"));
    unlink(stale.c_str());
    unlink((stale + ".lock").c_str());
}

TEST_CASE("MADs for addresses that nobody has wait in small numbers, a program's calls as many as they are") {
    using control::Resolver;
    size_t refused = 0, answered = 0;
    ControlWorld world({}, ControlWorld::Drive::Turns);
    auto& control = world.control();
    const auto answer = [&](int error, const wire::MacAddress&) { ++(error == ENOBUFS ? refused : answered); };
    const auto ask = [&](uint32_t host, Resolver::For whom) {
        control.resolver.resolve(*control.devices[0], wire::Gid::from_ipv4(0x0acb0100 + host), answer, whom);
    };
    constexpr size_t kEach = Resolver::kMaxMadsPerAddress;
    for (size_t i = 0; i < kEach + 3; ++i) ask(0, Resolver::For::Mad);
    CHECK(refused == 3);
    CHECK(control.resolver.waiting() == kEach);
    for (size_t i = 0; i < kEach + 3; ++i) ask(0, Resolver::For::Call);
    CHECK(refused == 3);
    for (uint32_t host = 1; host <= Resolver::kMaxMads; ++host) ask(host, Resolver::For::Mad);
    CHECK(refused == 3 + kEach);
    CHECK(control.resolver.waiting() == Resolver::kMaxMads + kEach + 3);
    // Those that wait are answered, and there is room again.
    control.resolver.learn(0, wire::Gid::from_ipv4(0x0acb0100), {2, 0, 0, 0, 0, 9}, control::EventLoop::now());
    CHECK(answered == 2 * kEach + 3);
    ask(0x80000, Resolver::For::Mad);
    CHECK(refused == 3 + kEach);
}
