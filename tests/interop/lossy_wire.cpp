// SPDX-License-Identifier: BSD-3-Clause
// lossy_wire IFACE_A IFACE_B SOCKET DIRECTORY: a cable between two interfaces of this network namespace that loses RoCE
// packets (UDP port 4791) as it is told and records what passes. Everything else passes untouched.
//
// Clients on SOCKET (SEQPACKET), each with a lane of its own; each line is answered with "ok":
//   begin NAME PPM SEED BYTES QPN_A QPN_B
//       the lane gets the packets from IFACE_A to queue pair QPN_A and from IFACE_B to QPN_B (0: all that are in no
//       other lane). Loses this share of them, decided by a generator for each lane and direction; records so many
//       bytes of each to DIRECTORY/NAME.pcap, of what was lost to DIRECTORY/NAME.lost.pcap
//   end keep|drop
//       no loss any more; the records stay or go
// SIGTERM ends it. "ready" is printed when frames pass.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// Of PACKET_VNET_HDR: unfinished checksums and large segments of the kernels' TCP pass through as they are.
constexpr size_t kVnetHeader = 10;
constexpr size_t kMaxFrame = 70000;
constexpr uint16_t kRocePort = 4791;

[[noreturn]] void die(const char* what) {
    std::perror(what);
    std::exit(1);
}

int open_interface(const char* name) {
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd < 0) die("packet socket");
    const int on = 1, buffer = 16 << 20;
    if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0) die("PACKET_VNET_HDR");
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0) die("PACKET_IGNORE_OUTGOING");
    if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on) != 0) die("SO_TIMESTAMP");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_protocol = htons(ETH_P_ALL);
    at.sll_ifindex = static_cast<int>(if_nametoindex(name));
    if (at.sll_ifindex == 0) die(name);
    packet_mreq all{};
    all.mr_ifindex = at.sll_ifindex;
    all.mr_type = PACKET_MR_PROMISC;
    setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
    if (bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) die("bind");
    return fd;
}

// The queue pair that a RoCE packet is for; -1: it is none.
int64_t queue_pair_of(const uint8_t* frame, size_t size) {
    const auto half = [&](size_t at) { return at + 2 <= size ? frame[at] << 8 | frame[at + 1] : 0; };
    size_t udp = 0;
    if (half(12) == ETH_P_IP && size > 36 && frame[23] == IPPROTO_UDP) udp = 34;
    if (half(12) == ETH_P_IPV6 && size > 56 && frame[20] == IPPROTO_UDP) udp = 54;
    if (udp == 0 || half(udp + 2) != kRocePort) return -1;
    const size_t number = udp + 8 + 5;
    return number + 3 <= size ? frame[number] << 16 | half(number + 1) : 0;
}

class Record {
  public:
    void open(const std::string& path, size_t snap) {
        close();
        snap_ = snap;
        path_ = path;
        file_ = std::fopen(path.c_str(), "wb");
        if (file_ == nullptr) die(path.c_str());
        const uint32_t head[6] = {0xa1b2c3d4, 0x00040002, 0, 0, kMaxFrame, 1};
        std::fwrite(head, sizeof head, 1, file_);
    }
    void add(const uint8_t* frame, size_t size, const timeval& now) {
        if (file_ == nullptr) return;
        const auto n = static_cast<uint32_t>(size), kept = static_cast<uint32_t>(std::min(size, snap_));
        const uint32_t head[4] = {static_cast<uint32_t>(now.tv_sec), static_cast<uint32_t>(now.tv_usec), kept, n};
        std::fwrite(head, sizeof head, 1, file_);
        std::fwrite(frame, kept, 1, file_);
        ++frames_;
    }
    // One without frames goes anyway.
    void close(bool keep = false) {
        if (file_ == nullptr) return;
        std::fclose(file_);
        file_ = nullptr;
        if (!keep || frames_ == 0) unlink(path_.c_str());
        frames_ = 0;
    }

  private:
    std::FILE* file_ = nullptr;
    std::string path_;
    size_t frames_ = 0, snap_ = 0;
};

// What one client asked for.
struct Lane {
    int client = -1;
    uint32_t qpn[2] = {0, 0};  // by direction
    uint64_t random[2] = {1, 1};
    uint32_t loss_ppm = 0;
    bool begun = false;
    Record passed, lost;

    bool loses(int direction) {
        if (loss_ppm == 0) return false;
        // xorshift64*: the same losses for the same packets.
        uint64_t& x = random[direction];
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        return (x * 0x2545F4914F6CDD1Dull >> 32) * 1'000'000 >> 32 < loss_ppm;
    }
    void end(bool keep) {
        begun = false;
        passed.close(keep);
        lost.close(keep);
    }
    void command(const std::string& line, const std::string& directory) {
        char name[200], verdict[8];
        unsigned ppm = 0, to_b = 0, to_a = 0;
        unsigned long seed = 0;
        size_t snap = 0;
        if (std::sscanf(line.c_str(), "begin %199s %u %lu %zu %u %u", name, &ppm, &seed, &snap, &to_b, &to_a) == 6) {
            begun = true;
            loss_ppm = ppm;
            qpn[0] = to_b;
            qpn[1] = to_a;
            for (int d = 0; d < 2; ++d) random[d] = (seed * 2 + static_cast<unsigned>(d)) * 0x9E3779B97F4A7C15ull | 1;
            passed.open(directory + "/" + name + ".pcap", snap);
            lost.open(directory + "/" + name + ".lost.pcap", snap);
        } else if (std::sscanf(line.c_str(), "end %7s", verdict) == 1) {
            end(std::strcmp(verdict, "keep") == 0);
        }
    }
};

constexpr size_t kLanes = 64;

struct Wire {
    int fd[2];
    Lane lanes[kLanes];
    uint8_t frame[kVnetHeader + kMaxFrame];

    Lane* lane_of(int direction, int64_t qpn) {
        Lane* all = nullptr;
        for (Lane& lane : lanes) {
            if (!lane.begun || qpn < 0) continue;
            if (lane.qpn[direction] == qpn) return &lane;
            if (lane.qpn[direction] == 0) all = &lane;
        }
        return all;
    }
    // The frame, and when it arrived: it may have waited for us.
    ssize_t receive(int from, timeval& when) {
        iovec part{frame, sizeof frame};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof when)];
        msghdr m{};
        m.msg_iov = &part;
        m.msg_iovlen = 1;
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        const ssize_t n = recvmsg(from, &m, MSG_DONTWAIT);
        if (n < 0) return n;
        for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c))
            if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMP)
                std::memcpy(&when, CMSG_DATA(c), sizeof when);
        return n;
    }
    void forward(int from) {
        // A burst; the other direction gets its turn.
        for (int i = 0; i < 64; ++i) {
            timeval when{};
            const ssize_t n = receive(fd[from], when);
            if (n <= static_cast<ssize_t>(kVnetHeader)) return;
            const auto size = static_cast<size_t>(n) - kVnetHeader;
            const uint8_t* bytes = frame + kVnetHeader;
            Lane* const lane = lane_of(from, queue_pair_of(bytes, size));
            if (lane != nullptr && lane->loses(from)) {
                lane->lost.add(bytes, size, when);
                continue;
            }
            if (lane != nullptr) lane->passed.add(bytes, size, when);
            // A full interface: a cable would have waited.
            while (send(fd[1 - from], frame, static_cast<size_t>(n), 0) < 0 && errno == ENOBUFS) usleep(50);
        }
    }
    void serve(Lane& lane, const std::string& directory) {
        char line[300];
        const ssize_t n = recv(lane.client, line, sizeof line - 1, 0);
        if (n <= 0) {
            lane.end(true);
            close(lane.client);
            lane.client = -1;
            return;
        }
        line[n] = 0;
        lane.command(line, directory);
        if (send(lane.client, "ok", 2, MSG_NOSIGNAL) < 0) std::perror("answer");
    }
};

int listen_at(const char* path) {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    unlink(path);
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
        listen(fd, static_cast<int>(kLanes)) != 0)
        die(path);
    return fd;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) {
        std::fputs("lossy_wire IFACE_A IFACE_B SOCKET DIRECTORY\n", stderr);
        return 2;
    }
    static Wire wire;
    wire.fd[0] = open_interface(argv[1]);
    wire.fd[1] = open_interface(argv[2]);
    const int listener = listen_at(argv[3]);
    std::puts("ready");
    std::fflush(stdout);
    for (;;) {
        // While all lanes are taken, the next client waits.
        const auto free = std::find_if(std::begin(wire.lanes), std::end(wire.lanes),
                                       [](const Lane& lane) { return lane.client < 0; });
        pollfd p[3 + kLanes] = {{wire.fd[0], POLLIN, 0},
                                {wire.fd[1], POLLIN, 0},
                                {free == std::end(wire.lanes) ? -1 : listener, POLLIN, 0}};
        for (size_t i = 0; i < kLanes; ++i) p[3 + i] = {wire.lanes[i].client, POLLIN, 0};
        if (poll(p, 3 + kLanes, -1) < 0) continue;
        if (p[0].revents != 0) wire.forward(0);
        if (p[1].revents != 0) wire.forward(1);
        for (size_t i = 0; i < kLanes; ++i)
            if (p[3 + i].revents != 0) wire.serve(wire.lanes[i], argv[4]);
        if (p[2].revents != 0) free->client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    }
}
