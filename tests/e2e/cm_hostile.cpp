// SPDX-License-Identifier: BSD-3-Clause
// cm_hostile ADDRESS PORT SECONDS SEED: an attached program that writes to /dev/infiniband/rdma_cm what no librdmacm
// would: commands of every kind with made-up contents, out of order, cut short, about ids that it does not own; now and
// then connections to and listeners beside what others serve on ADDRESS. Before that it tries, in order, what must be
// refused: the port that somebody listens on (PORT), a privileged port, more ids than its share. Exit code 0: all that
// was refused, and no event that it fetched was about an id that it had not made.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

namespace {

std::mt19937_64 chance;
uint32_t below(uint32_t n) {
    return static_cast<uint32_t>(chance() % n);
}

// What this process calls its ids, so that an event of somebody else's would be noticed.
constexpr uint64_t kMarks = 0x5eed5eed;
uint64_t mark() {
    return static_cast<uint64_t>(getpid()) << 32 | kMarks;
}

template <typename Body>
ssize_t command(int fd, uint32_t number, const Body& body, size_t out_size = 0) {
    struct {
        rdma_ucm_cmd_hdr header;
        Body body;
    } record{};
    record.header.cmd = number;
    record.header.in = sizeof body;
    record.header.out = static_cast<uint16_t>(out_size);
    record.body = body;
    return write(fd, &record, sizeof record);
}

// An id, or -1 and errno.
int64_t create_id(int fd, uint16_t port_space = RDMA_PS_TCP) {
    rdma_ucm_create_id_resp reply{};
    rdma_ucm_create_id body{};
    body.uid = mark();
    body.response = reinterpret_cast<uint64_t>(&reply);
    body.ps = port_space;
    body.qp_type = port_space == RDMA_PS_UDP ? 4 : 2;
    return command(fd, RDMA_USER_CM_CMD_CREATE_ID, body, sizeof reply) < 0 ? -1 : static_cast<int64_t>(reply.id);
}

sockaddr_in6 address_of(const char* address, uint16_t port) {
    sockaddr_in6 storage{};
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    inet_pton(AF_INET, address, &a.sin_addr);
    std::memcpy(&storage, &a, sizeof a);
    return storage;
}

int bind_to(int fd, uint32_t id, const char* address, uint16_t port) {
    rdma_ucm_bind_ip body{};
    body.id = id;
    body.addr = address_of(address, port);
    return command(fd, RDMA_USER_CM_CMD_BIND_IP, body) < 0 ? errno : 0;
}

int listen_on(int fd, uint32_t id) {
    rdma_ucm_listen body{};
    body.id = id;
    body.backlog = 8;
    return command(fd, RDMA_USER_CM_CMD_LISTEN, body) < 0 ? errno : 0;
}

bool expect(const char* what, int error, int wanted) {
    if (error == wanted) return true;
    std::printf("%s: %s, not %s\n", what, error == 0 ? "allowed" : std::strerror(error), std::strerror(wanted));
    return false;
}

bool refusals(const char* address, uint16_t port) {
    const int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_NONBLOCK);
    if (fd < 0) return expect("open", errno, 0);
    bool good = true;
    const auto id = static_cast<uint32_t>(create_id(fd));
    int error = bind_to(fd, id, address, port);
    if (error == 0) error = listen_on(fd, id);
    good &= expect("the port of another listener", error, EADDRINUSE);
    const auto second = static_cast<uint32_t>(create_id(fd));
    error = bind_to(fd, second, "0.0.0.0", port);
    if (error == 0) error = listen_on(fd, second);
    good &= expect("that port on the wildcard address", error, EADDRINUSE);
    if (geteuid() != 0)
        good &= expect("a privileged port", bind_to(fd, static_cast<uint32_t>(create_id(fd)), address, 80), EACCES);
    good &= expect("the address of no device", bind_to(fd, static_cast<uint32_t>(create_id(fd)), "10.203.0.99", 9000), EADDRNOTAVAIL);
    // Ids of others have numbers too: the small ones, as here. None of them is ours.
    rdma_ucm_disconnect other{};
    for (uint32_t foreign = 100; foreign < 200; ++foreign) {
        other.id = foreign;
        if (command(fd, RDMA_USER_CM_CMD_DISCONNECT, other) >= 0 || errno != ENOENT)
            good &= expect("a foreign id", errno, ENOENT);
    }
    int made = 0;
    while (made < 100000 && create_id(fd) >= 0) ++made;
    good &= expect("ids without end", errno, ENOMEM);
    std::printf("%d ids, then: %s\n", made, std::strerror(errno));
    close(fd);
    return good;
}

// One write of anything.
void anything(int fd, const char* address, uint16_t port) {
    std::vector<unsigned char> record(sizeof(rdma_ucm_cmd_hdr) + below(700));
    static unsigned char reply[4096];
    for (auto& byte : record) byte = static_cast<unsigned char>(below(4) == 0 ? chance() : 0);
    rdma_ucm_cmd_hdr header{};
    header.cmd = below(RDMA_USER_CM_CMD_JOIN_MCAST + 3);
    if (header.cmd == RDMA_USER_CM_CMD_GET_EVENT && below(4) != 0) header.cmd = RDMA_USER_CM_CMD_CREATE_ID;
    header.in = static_cast<uint16_t>(record.size() - sizeof header);
    if (below(20) == 0) header.in = static_cast<uint16_t>(chance());
    header.out = static_cast<uint16_t>(below(2) == 0 ? sizeof reply : below(64));
    // Most commands begin with where the answer goes and an id, or with an id; addresses follow at an even place.
    for (size_t at = sizeof header; at + 8 <= record.size() && at < sizeof header + 40; at += 4) {
        const uint32_t pick = below(4);
        const uint64_t where = reinterpret_cast<uint64_t>(reply);
        const uint32_t id = below(12);
        if (pick == 0 && at % 8 == 0) std::memcpy(&record[at], &where, sizeof where);
        if (pick == 1) std::memcpy(&record[at], &id, sizeof id);
        const auto a = address_of(below(2) ? address : "10.203.0.2", static_cast<uint16_t>(below(2) ? port : below(65536)));
        if (pick == 2 && at + sizeof a <= record.size()) std::memcpy(&record[at], &a, sizeof a);
    }
    std::memcpy(record.data(), &header, sizeof header);
    (void)!write(fd, record.data(), record.size());
}

// False: an event was somebody else's.
bool drain(int fd, uint64_t* fetched) {
    for (;;) {
        rdma_ucm_event_resp event{};
        rdma_ucm_get_event body{};
        body.response = reinterpret_cast<uint64_t>(&event);
        if (command(fd, RDMA_USER_CM_CMD_GET_EVENT, body, sizeof event) < 0) return true;
        ++*fetched;
        // Ids are made by create_id, with a mark of this process, or by `anything`, whose marks have other patterns.
        if ((event.uid & 0xffffffff) == kMarks && event.uid != mark()) return false;
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    const char* address = argv[1];
    const auto port = static_cast<uint16_t>(std::atoi(argv[2]));
    const time_t end = time(nullptr) + std::atoi(argv[3]);
    chance.seed(std::strtoull(argv[4], nullptr, 10));
    if (!refusals(address, port)) return 1;
    uint64_t writes = 0, fetched = 0;
    while (time(nullptr) < end) {
        const int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_NONBLOCK);
        if (fd < 0) return 1;
        for (uint32_t i = 0; i < 400; ++i, ++writes) anything(fd, address, port);
        if (!drain(fd, &fetched)) {
            std::printf("an event of somebody else\n");
            return 1;
        }
        close(fd);
    }
    std::printf("%llu commands, %llu events\n", static_cast<unsigned long long>(writes), static_cast<unsigned long long>(fetched));
    return 0;
}
