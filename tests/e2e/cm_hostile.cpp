// SPDX-License-Identifier: BSD-3-Clause
// cm_hostile ADDRESS PORT SECONDS SEED: an attached program that writes to /dev/infiniband/rdma_cm what no librdmacm
// would: commands of every kind with made-up contents, out of order, cut short, about ids that it does not own; now and
// then connections to and listeners beside what others serve on ADDRESS. Before that it tries, in order, what must be
// refused: the port that somebody listens on (PORT), privileged ports, every command that names an id with those of
// others, more ids and channels than its share. Exit code 0: all that was refused, and no event that it fetched was about
// an id that it had not made.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

#include "cm_device.h"

using namespace cm_device;

namespace {

std::mt19937_64 chance;
uint32_t below(uint32_t n) {
    return static_cast<uint32_t>(chance() % n);
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

// A command about an id that is somebody else's, everything else of it being as it should be.
template <typename Body>
bool refuses_foreign(const char* what, int fd, uint32_t number, const char* address) {
    static unsigned char reply[1024];
    const uint32_t option = 1;
    const sockaddr_in6 somewhere = address_of(address, 7009);
    Body body{};
    if constexpr (requires { body.response; }) body.response = reinterpret_cast<uint64_t>(reply);
    if constexpr (requires { body.uid; }) body.uid = mark();
    if constexpr (requires { body.addr_size; }) body.addr_size = sizeof(sockaddr_in);
    if constexpr (requires { body.addr; }) std::memcpy(&body.addr, &somewhere, sizeof somewhere);
    if constexpr (requires { body.dst_size; }) body.dst_size = sizeof(sockaddr_in);
    if constexpr (requires { body.dst_addr; }) std::memcpy(&body.dst_addr, &somewhere, sizeof somewhere);
    if constexpr (requires { body.conn_param; }) body.conn_param.valid = 1;
    if constexpr (requires { body.optval; }) {
        body.optval = reinterpret_cast<uint64_t>(&option);
        body.optlen = 1;
    }
    if constexpr (requires { body.fd; }) body.fd = static_cast<uint32_t>(fd);
    bool good = true;
    // The numbers of others are small ones, as here; this program has made less than a hundred.
    for (uint32_t foreign = 100; foreign < 120; ++foreign) {
        body.id = foreign;
        const bool done = command(fd, number, body, sizeof reply) >= 0;
        good &= expect(what, done ? 0 : errno, ENOENT);
    }
    return good;
}

bool foreign_ids(int fd, const char* address) {
    bool good = true;
#define FOREIGN(command, body) good &= refuses_foreign<body>(#command " of a foreign id", fd, RDMA_USER_CM_CMD_##command, address)
    FOREIGN(DESTROY_ID, rdma_ucm_destroy_id);
    FOREIGN(BIND_IP, rdma_ucm_bind_ip);
    FOREIGN(RESOLVE_IP, rdma_ucm_resolve_ip);
    FOREIGN(RESOLVE_ROUTE, rdma_ucm_resolve_route);
    FOREIGN(QUERY_ROUTE, rdma_ucm_query);
    FOREIGN(CONNECT, rdma_ucm_connect);
    FOREIGN(LISTEN, rdma_ucm_listen);
    FOREIGN(ACCEPT, rdma_ucm_accept);
    FOREIGN(REJECT, rdma_ucm_reject);
    FOREIGN(DISCONNECT, rdma_ucm_disconnect);
    FOREIGN(INIT_QP_ATTR, rdma_ucm_init_qp_attr);
    FOREIGN(SET_OPTION, rdma_ucm_set_option);
    FOREIGN(NOTIFY, rdma_ucm_notify);
    FOREIGN(JOIN_IP_MCAST, rdma_ucm_join_ip_mcast);
    FOREIGN(LEAVE_MCAST, rdma_ucm_destroy_id);
    FOREIGN(MIGRATE_ID, rdma_ucm_migrate_id);
    FOREIGN(QUERY, rdma_ucm_query);
    FOREIGN(BIND, rdma_ucm_bind);
    FOREIGN(RESOLVE_ADDR, rdma_ucm_resolve_addr);
    FOREIGN(JOIN_MCAST, rdma_ucm_join_mcast);
#undef FOREIGN
    return good;
}

bool privileged_ports(int fd, const char* address) {
    bool good = true;
    for (const uint16_t space : {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB}) {
        for (const uint16_t port : {1, 80, 1023}) {
            const auto id = static_cast<uint32_t>(create_id(fd, space));
            good &= expect("a privileged port", bind_to(fd, id, address, port), EACCES);
            good &= expect("a privileged port of all addresses", bind_to(fd, id, "0.0.0.0", port), EACCES);
            // As the source of a connection.
            rdma_ucm_resolve_ip body{};
            body.id = id;
            body.src_addr = address_of(address, port);
            body.dst_addr = address_of(address, 7000);
            const bool done = command(fd, RDMA_USER_CM_CMD_RESOLVE_IP, body) >= 0;
            good &= expect("a connection from a privileged port", done ? 0 : errno, EACCES);
        }
    }
    return good;
}

// More than its share, of ids and of channels; what it has is given back when they are closed.
bool quotas() {
    bool good = true;
    std::vector<int> channels;
    for (int fd; channels.size() < 100000 && (fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_NONBLOCK)) >= 0;) channels.push_back(fd);
    good &= expect("channels without end", errno, ENOMEM);
    std::printf("%zu channels, then: %s\n", channels.size(), std::strerror(errno));
    for (const int fd : channels) close(fd);
    // The daemon hears of it in its own time.
    int fd = -1;
    for (int i = 0; i < 3000 && (fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_NONBLOCK)) < 0; ++i) usleep(10'000);
    int made = 0;
    while (made < 100000 && create_id(fd) >= 0) ++made;
    good &= expect("ids without end", errno, ENOMEM);
    std::printf("%d ids, then: %s\n", made, std::strerror(errno));
    close(fd);
    return good;
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
    good &= expect("the address of no device", bind_to(fd, static_cast<uint32_t>(create_id(fd)), "10.203.0.99", 9000), EADDRNOTAVAIL);
    good &= foreign_ids(fd, address);
    if (geteuid() != 0) good &= privileged_ports(fd, address);
    close(fd);
    return good && quotas();
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

// What is in order, so that there are events: an id of its own that finds the way to the others' server.
void honest_id(int fd, const char* address, uint16_t port) {
    rdma_ucm_resolve_ip body{};
    body.id = static_cast<uint32_t>(create_id(fd));
    body.dst_addr = address_of(address, port);
    (void)command(fd, RDMA_USER_CM_CMD_RESOLVE_IP, body);
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
        for (uint32_t i = 0; i < 4; ++i) honest_id(fd, address, port);
        for (uint32_t i = 0; i < 400; ++i, ++writes) anything(fd, address, port);
        if (!drain(fd, &fetched)) {
            std::printf("an event of somebody else\n");
            return 1;
        }
        close(fd);
    }
    std::printf("%llu commands, %llu events\n", static_cast<unsigned long long>(writes), static_cast<unsigned long long>(fetched));
    return fetched > 0 ? 0 : 1;
}
