// SPDX-License-Identifier: BSD-3-Clause
// The write() interface of /dev/infiniband/rdma_cm, for attached programs that use it without librdmacm.
// Read <rdma/rdma_user_cm.h>.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace cm_device {

// What this process calls its ids, so that an event of somebody else's would be noticed.
constexpr uint64_t kMarks = 0x5eed5eed;
inline uint64_t mark() {
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
inline int64_t create_id(int fd, uint16_t port_space = RDMA_PS_TCP) {
    rdma_ucm_create_id_resp reply{};
    rdma_ucm_create_id body{};
    body.uid = mark();
    body.response = reinterpret_cast<uint64_t>(&reply);
    body.ps = port_space;
    body.qp_type = port_space == RDMA_PS_UDP ? 4 : 2;
    return command(fd, RDMA_USER_CM_CMD_CREATE_ID, body, sizeof reply) < 0 ? -1 : static_cast<int64_t>(reply.id);
}

// Of either family, as the commands with room for an IPv6 address want it.
inline sockaddr_in6 address_of(const char* address, uint16_t port) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    if (inet_pton(AF_INET6, address, &any.sin6_addr) == 1) return any;
    any = {};
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    inet_pton(AF_INET, address, &a.sin_addr);
    std::memcpy(&any, &a, sizeof a);
    return any;
}

inline int bind_to(int fd, uint32_t id, const char* address, uint16_t port) {
    rdma_ucm_bind_ip body{};
    body.id = id;
    body.addr = address_of(address, port);
    return command(fd, RDMA_USER_CM_CMD_BIND_IP, body) < 0 ? errno : 0;
}

}  // namespace cm_device
