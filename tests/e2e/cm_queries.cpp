// SPDX-License-Identifier: BSD-3-Clause
// cm_queries SOURCE DESTINATION PORT: an attached program that asks the rdma_cm device about one of its ids, in every form
// the device has: addresses, GIDs (struct sockaddr_ib), paths (the record of IBTA volume 1, 15.2.5.16), before and after
// the way to DESTINATION is known, with room for the answer and without. Exit code 0: all answers are right.
#include <fcntl.h>
#include <infiniband/ib.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/ib_user_sa.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "cm_device.h"

using namespace cm_device;

namespace {

// Of enum rdma_cm_event_type; <rdma/rdma_cma.h> cannot be included beside <rdma/rdma_user_cm.h>.
constexpr uint32_t kAddressResolved = 0, kRouteResolved = 2;

int failures = 0;
#define CHECK(what) \
    if (!(what)) std::printf("line %d: %s\n", __LINE__, #what), ++failures

struct Answer {
    alignas(8) unsigned char bytes[512];
    int error;
    template <typename T>
    T at(size_t offset) const {
        T value;
        std::memcpy(&value, bytes + offset, sizeof value);
        return value;
    }
};

Answer query(int fd, uint32_t id, uint32_t option, size_t room) {
    Answer a;
    std::memset(a.bytes, 0xa5, sizeof a.bytes);
    rdma_ucm_query body{};
    body.response = reinterpret_cast<uint64_t>(a.bytes);
    body.id = id;
    body.option = option;
    a.error = command(fd, RDMA_USER_CM_CMD_QUERY, body, room) < 0 ? errno : 0;
    return a;
}

// Waits for the event; false: it was another one.
bool event_is(int fd, uint32_t wanted) {
    rdma_ucm_event_resp event{};
    rdma_ucm_get_event body{};
    body.response = reinterpret_cast<uint64_t>(&event);
    return command(fd, RDMA_USER_CM_CMD_GET_EVENT, body, sizeof event) >= 0 && event.event == wanted && event.status == 0;
}

void gid_of(const sockaddr_in6& a, unsigned char* gid) {
    std::memset(gid, 0, 16);
    if (a.sin6_family == AF_INET6) {
        std::memcpy(gid, &a.sin6_addr, 16);
        return;
    }
    gid[10] = gid[11] = 0xff;
    std::memcpy(gid + 12, &reinterpret_cast<const sockaddr_in&>(a).sin_addr, 4);
}

constexpr size_t kPathHead = offsetof(rdma_ucm_query_path_resp, path_data);
constexpr size_t kPathRoom = kPathHead + sizeof(ib_path_rec_data);
constexpr size_t kRecord = kPathHead + offsetof(ib_path_rec_data, path_rec);
constexpr size_t kSource = offsetof(rdma_ucm_query_addr_resp, src_addr), kDestination = offsetof(rdma_ucm_query_addr_resp, dst_addr);

void before(int fd, uint32_t id) {
    const Answer gid = query(fd, id, RDMA_USER_CM_QUERY_GID, sizeof(rdma_ucm_query_addr_resp));
    CHECK(gid.error == 0 && gid.at<uint64_t>(0) == 0);
    CHECK(gid.at<uint16_t>(offsetof(rdma_ucm_query_addr_resp, dst_size)) == 0);
    const Answer path = query(fd, id, RDMA_USER_CM_QUERY_PATH, kPathRoom);
    CHECK(path.error == 0 && path.at<uint32_t>(0) == 0);
}

void after(int fd, uint32_t id, const sockaddr_in6& from, const sockaddr_in6& to, uint16_t port) {
    const size_t size = from.sin6_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    unsigned char source[16], destination[16];
    gid_of(from, source);
    gid_of(to, destination);

    const Answer a = query(fd, id, RDMA_USER_CM_QUERY_ADDR, sizeof(rdma_ucm_query_addr_resp));
    const auto addresses = a.at<rdma_ucm_query_addr_resp>(0);
    CHECK(a.error == 0 && addresses.node_guid != 0 && addresses.port_num == 1 && addresses.pkey == 0xffff);
    CHECK(addresses.src_size == size && addresses.dst_size == size);
    CHECK(std::memcmp(&addresses.dst_addr, &to, size) == 0);
    const auto own = a.at<sockaddr_in6>(kSource);
    CHECK(own.sin6_family == from.sin6_family && own.sin6_port != 0);
    unsigned char own_gid[16];
    gid_of(own, own_gid);
    CHECK(std::memcmp(own_gid, source, 16) == 0);

    const Answer g = query(fd, id, RDMA_USER_CM_QUERY_GID, sizeof(rdma_ucm_query_addr_resp));
    const auto gids = g.at<rdma_ucm_query_addr_resp>(0);
    CHECK(g.error == 0 && gids.node_guid == addresses.node_guid && gids.pkey == 0xffff);
    CHECK(gids.src_size == sizeof(sockaddr_ib) && gids.dst_size == sizeof(sockaddr_ib));
    const auto here = g.at<sockaddr_ib>(kSource), there = g.at<sockaddr_ib>(kDestination);
    CHECK(here.sib_family == AF_IB && there.sib_family == AF_IB && here.sib_pkey == 0xffff);
    CHECK(std::memcmp(&here.sib_addr, source, 16) == 0);
    CHECK(std::memcmp(&there.sib_addr, destination, 16) == 0);
    // A service id of the RDMA IP service: port space and port (IBTA A11.6).
    CHECK(be64toh(there.sib_sid) == (uint64_t{RDMA_PS_TCP} << 16 | port));
    CHECK(be64toh(here.sib_sid) == (uint64_t{RDMA_PS_TCP} << 16 | ntohs(own.sin6_port)));

    const Answer p = query(fd, id, RDMA_USER_CM_QUERY_PATH, kPathRoom);
    CHECK(p.error == 0 && p.at<uint32_t>(0) == 1);
    CHECK((p.at<uint32_t>(kPathHead) & (IB_PATH_PRIMARY | IB_PATH_GMP)) == (IB_PATH_PRIMARY | IB_PATH_GMP));
    CHECK(std::memcmp(p.bytes + kRecord + 8, destination, 16) == 0);
    CHECK(std::memcmp(p.bytes + kRecord + 24, source, 16) == 0);
    CHECK(p.bytes[kRecord + 47] == 64);                        // hop limit
    CHECK(ntohs(p.at<uint16_t>(kRecord + 50)) == 0xffff);      // P_Key
    CHECK((p.bytes[kRecord + 54] & 0x3f) == 5);                // MTU 4096
    CHECK((p.bytes[kRecord + 55] & 0x3f) != 0);                // a rate

    // Room for the number of paths alone; for less; what is behind the room stays as it was.
    const Answer head = query(fd, id, RDMA_USER_CM_QUERY_PATH, kPathHead);
    CHECK(head.error == 0 && head.at<uint32_t>(0) == 1 && head.bytes[kPathHead] == 0xa5);
    const Answer none = query(fd, id, RDMA_USER_CM_QUERY_PATH, kPathHead - 1);
    CHECK(none.error == ENOSPC && none.bytes[0] == 0xa5);
    CHECK(query(fd, id, RDMA_USER_CM_QUERY_GID, 64).error == ENOSPC);
    CHECK(query(fd, id, RDMA_USER_CM_QUERY_GID + 1, kPathRoom).error == EINVAL);
    CHECK(query(fd, id + 100, RDMA_USER_CM_QUERY_GID, kPathRoom).error == ENOENT);
}

// A channel with an id that resolves an address: its event is under way.
struct Resolving {
    int fd;
    uint32_t id;
};
Resolving resolving(const sockaddr_in6& to) {
    const int fd = open("/dev/infiniband/rdma_cm", O_RDWR);
    rdma_ucm_resolve_ip address{};
    address.id = static_cast<uint32_t>(create_id(fd));
    address.timeout_ms = 2000;
    address.dst_addr = to;
    CHECK(command(fd, RDMA_USER_CM_CMD_RESOLVE_IP, address) >= 0);
    return {fd, address.id};
}

// The event of an id ends with it: the descriptor is not readable when GET_EVENT would wait.
void ends(const sockaddr_in6& to) {
    const auto [fd, id] = resolving(to);
    pollfd p{fd, POLLIN, 0};
    CHECK(poll(&p, 1, 5000) == 1);
    rdma_ucm_destroy_id_resp reply{};
    rdma_ucm_destroy_id body{};
    body.response = reinterpret_cast<uint64_t>(&reply);
    body.id = id;
    CHECK(command(fd, RDMA_USER_CM_CMD_DESTROY_ID, body, sizeof reply) >= 0 && reply.events_reported == 0);
    CHECK(poll(&p, 1, 0) == 0);
    close(fd);
}

// GET_EVENT needs no descriptor, as in the kernel.
void without_descriptors(const sockaddr_in6& to) {
    const auto [fd, id] = resolving(to);
    rlimit before{};
    getrlimit(RLIMIT_NOFILE, &before);
    const int free = dup(fd);
    close(free);
    const rlimit none{static_cast<rlim_t>(free), before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    CHECK(event_is(fd, kAddressResolved));
    setrlimit(RLIMIT_NOFILE, &before);
    close(fd);
}

// An id whose number could not be told is none: more are asked for than there may be (cm_device.sh: limits.max_cm_ids).
void unheard_ids() {
    const int fd = open("/dev/infiniband/rdma_cm", O_RDWR);
    rdma_ucm_create_id body{};
    body.uid = mark();
    body.response = 8;
    body.ps = RDMA_PS_TCP;
    body.qp_type = 2;
    for (int i = 0; i < 100; ++i) CHECK(command(fd, RDMA_USER_CM_CMD_CREATE_ID, body, sizeof(rdma_ucm_create_id_resp)) < 0 && errno == EFAULT);
    CHECK(create_id(fd) >= 0);
    close(fd);
}

long open_files() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

// A thread that waits for an event is cancelled, as rping does it at its end: the channel is closed when it is closed.
void cancelled_waits() {
    const long before = open_files();
    for (int round = 0; round < 20; ++round) {
        int fd = open("/dev/infiniband/rdma_cm", O_RDWR);
        pthread_t thread;
        CHECK(pthread_create(&thread, nullptr, [](void* p) -> void* { return event_is(*static_cast<int*>(p), 0) ? p : nullptr; }, &fd) == 0);
        usleep(5000);  // it waits by then, mostly
        pthread_cancel(thread);
        void* result = nullptr;
        pthread_join(thread, &result);
        CHECK(result == PTHREAD_CANCELED);
        close(fd);
    }
    CHECK(open_files() == before);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const auto port = static_cast<uint16_t>(std::atoi(argv[3]));
    const sockaddr_in6 from = address_of(argv[1], 0), to = address_of(argv[2], port);
    const int fd = open("/dev/infiniband/rdma_cm", O_RDWR);
    if (fd < 0) return 1;
    const auto id = static_cast<uint32_t>(create_id(fd));
    before(fd, id);
    rdma_ucm_resolve_ip address{};
    address.id = id;
    address.timeout_ms = 2000;
    address.dst_addr = to;
    rdma_ucm_resolve_route route{};
    route.id = id;
    route.timeout_ms = 2000;
    CHECK(command(fd, RDMA_USER_CM_CMD_RESOLVE_IP, address) >= 0 && event_is(fd, kAddressResolved));
    CHECK(command(fd, RDMA_USER_CM_CMD_RESOLVE_ROUTE, route) >= 0 && event_is(fd, kRouteResolved));
    after(fd, id, from, to, port);
    ends(to);
    without_descriptors(to);
    unheard_ids();
    cancelled_waits();
    std::printf("%d wrong answers\n", failures);
    return failures == 0 ? 0 : 1;
}
