// SPDX-License-Identifier: BSD-3-Clause
// lossy_wire IFACE_A IFACE_B SOCKET DIRECTORY: a cable between two interfaces of this network namespace that loses RoCE
// packets (UDP port 4791) as it is told and records what passes. Everything else passes untouched.
//
// One client at a time on SOCKET (SEQPACKET), each line is answered with "ok":
//   begin NAME PPM SEED BYTES   loses this share of the packets, decided by a generator for each direction; records so
//                               many bytes of each to DIRECTORY/NAME.pcap, of what was lost to DIRECTORY/NAME.lost.pcap
//   end keep|drop               no loss any more; the records stay or go
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

bool is_roce(const uint8_t* frame, size_t size) {
    const auto half = [&](size_t at) { return at + 2 <= size ? frame[at] << 8 | frame[at + 1] : 0; };
    if (half(12) == ETH_P_IP) return size > 36 && frame[23] == IPPROTO_UDP && half(36) == kRocePort;
    if (half(12) == ETH_P_IPV6) return size > 56 && frame[20] == IPPROTO_UDP && half(56) == kRocePort;
    return false;
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
    void add(const uint8_t* frame, size_t size) {
        if (file_ == nullptr) return;
        timeval now{};
        gettimeofday(&now, nullptr);
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

struct Wire {
    int fd[2];
    uint64_t random[2] = {1, 1};
    uint32_t loss_ppm = 0;
    Record passed, lost;
    uint8_t frame[kVnetHeader + kMaxFrame];

    bool loses(int direction) {
        // xorshift64*: the same losses for the same packets.
        uint64_t& x = random[direction];
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        return (x * 0x2545F4914F6CDD1Dull >> 32) * 1'000'000 >> 32 < loss_ppm;
    }
    void forward(int from) {
        // A burst; the other direction gets its turn.
        for (int i = 0; i < 64; ++i) {
            const ssize_t n = recv(fd[from], frame, sizeof frame, MSG_DONTWAIT);
            if (n <= static_cast<ssize_t>(kVnetHeader)) return;
            const auto size = static_cast<size_t>(n) - kVnetHeader;
            const uint8_t* bytes = frame + kVnetHeader;
            const bool roce = is_roce(bytes, size);
            if (roce && loss_ppm != 0 && loses(from)) {
                lost.add(bytes, size);
                continue;
            }
            if (roce) passed.add(bytes, size);
            // A full interface: a cable would have waited.
            while (send(fd[1 - from], frame, static_cast<size_t>(n), 0) < 0 && errno == ENOBUFS) usleep(50);
        }
    }
    void command(const std::string& line, const std::string& directory) {
        char name[200], verdict[8];
        unsigned ppm = 0;
        unsigned long seed = 0;
        size_t snap = 0;
        if (std::sscanf(line.c_str(), "begin %199s %u %lu %zu", name, &ppm, &seed, &snap) == 4) {
            loss_ppm = ppm;
            for (int d = 0; d < 2; ++d) random[d] = (seed * 2 + static_cast<unsigned>(d)) * 0x9E3779B97F4A7C15ull | 1;
            passed.open(directory + "/" + name + ".pcap", snap);
            lost.open(directory + "/" + name + ".lost.pcap", snap);
        } else if (std::sscanf(line.c_str(), "end %7s", verdict) == 1) {
            loss_ppm = 0;
            const bool keep = std::strcmp(verdict, "keep") == 0;
            passed.close(keep);
            lost.close(keep);
        }
    }
};

int listen_at(const char* path) {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    unlink(path);
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || listen(fd, 4) != 0) die(path);
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
    int client = -1;
    std::puts("ready");
    std::fflush(stdout);
    for (;;) {
        // While there is a client, the next one waits.
        pollfd p[3] = {{wire.fd[0], POLLIN, 0}, {wire.fd[1], POLLIN, 0}, {client < 0 ? listener : client, POLLIN, 0}};
        if (poll(p, 3, -1) < 0) continue;
        if (p[0].revents != 0) wire.forward(0);
        if (p[1].revents != 0) wire.forward(1);
        if (p[2].revents == 0) continue;
        if (client < 0) {
            client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
            continue;
        }
        char line[300];
        const ssize_t n = recv(client, line, sizeof line - 1, 0);
        if (n <= 0) {
            close(client);
            client = -1;
            continue;
        }
        line[n] = 0;
        wire.command(line, argv[4]);
        if (send(client, "ok", 2, MSG_NOSIGNAL) < 0) std::perror("answer");
    }
}
