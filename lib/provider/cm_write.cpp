// SPDX-License-Identifier: BSD-3-Clause
// The commands of the rdma_cm device, each translated to one message of the border. Checks and errors follow what the
// kernel does with the same write: EINVAL for a malformed one, ENOSYS for a command without a function, ENOSPC when the
// answer does not fit.
#include "provider/cm_write.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "guard/fault_guard.h"
#include "provider/cm_command.h"
#include "provider/cm_convert.h"
#include "provider/cm_query.h"
#include "provider/high_fd.h"
#include "provider/no_cancel.h"
#include "provider/verbs.h"

namespace rocemu::provider {
namespace {

// A reference of our own to an open file; without a free descriptor that of the application, under its number.
class HeldFd {
  public:
    explicit HeldFd(int of) : fd(dup_high(of)), own_(fd >= 0) {
        if (!own_) fd = of;
    }
    ~HeldFd() {
        const int error = errno;
        if (own_) close(fd);
        errno = error;
    }
    HeldFd(const HeldFd&) = delete;
    HeldFd& operator=(const HeldFd&) = delete;
    int fd;

    // recv(2) that may block, and in which a thread that is cancelled may end: then nothing of this object runs any more.
    ssize_t receive(void* record, size_t size) {
        ssize_t n;
        pthread_cleanup_push(release, this);
        n = recv(fd, record, size, MSG_PEEK);
        pthread_cleanup_pop(0);
        return n;
    }

  private:
    static void release(void* held) { static_cast<HeldFd*>(held)->~HeldFd(); }
    static int dup_high(int of) {
        const int high = fcntl(of, F_DUPFD_CLOEXEC, kFirstHighFd);
        return high >= 0 ? high : fcntl(of, F_DUPFD_CLOEXEC, 0);
    }
    bool own_;
};

#define READ(type, name)    \
    type name; /* NOLINT */ \
    if (!command.read(name)) return EINVAL
// Structures whose last field came later.
#define READ_UP_TO(type, name, field) \
    type name; /* NOLINT */           \
    if (!command.read(name, offsetof(type, field))) return EINVAL

// A command that may leave the channel `from` (its number and descriptor) without events: then the record that told of one
// goes too, and poll(2) does not promise what GET_EVENT would wait for.
template <typename Request, typename Reply>
int call_and_withdraw(const CmCommand& command, const Request& request, Reply& reply, uint32_t from, int fd) {
    NoCancel no_cancel;
    Guard guard(command.session.cm_events_lock);
    const int rc = command.session.call(request, reply);
    char record;
    if (rc == 0 && reply.withdrawn == from) (void)recv(fd, &record, sizeof record, MSG_DONTWAIT);
    return rc;
}

int create_id(const CmCommand& command) {
    READ(rdma_ucm_create_id, in);
    if (command.out_size < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
    abi::CmCreateIdRequest request;
    request.uid = in.uid;
    request.channel = command.channel;
    request.port_space = in.ps;
    request.qp_type = in.qp_type;
    abi::CmCreateIdReply reply;
    if (const int rc = command.session.call(request, reply)) return rc;
    const int rc = command.answer(in.response, rdma_ucm_create_id_resp{reply.id});
    if (rc != 0) command.call(abi::CmDestroyIdRequest{reply.id});  // nobody knows its number
    return rc;
}

int destroy_id(const CmCommand& command) {
    READ(rdma_ucm_destroy_id, in);
    if (command.out_size < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
    abi::CmDestroyIdReply reply;
    int rc = call_and_withdraw(command, abi::CmDestroyIdRequest{in.id}, reply, command.channel, command.fd);
    if (rc == EIO && !command.session.alive()) rc = 0;  // a daemon that is gone has destroyed everything
    if (rc != 0) return rc;
    return command.answer(in.response, rdma_ucm_destroy_id_resp{reply.events_reported});
}

int bind_address(const CmCommand& command, uint32_t id, const void* address, size_t size) {
    abi::CmBindRequest request;
    request.id = id;
    if (!address_from(address, size, request.address) || request.address.family == 0) return EINVAL;
    return command.call(request);
}
int bind_ip(const CmCommand& command) {
    READ(rdma_ucm_bind_ip, in);
    return bind_address(command, in.id, &in.addr, sizeof in.addr);
}
int bind_any(const CmCommand& command) {
    READ(rdma_ucm_bind, in);
    return bind_address(command, in.id, &in.addr, std::min<size_t>(in.addr_size, sizeof in.addr));
}

int resolve(const CmCommand& command, abi::CmResolveAddressRequest request, const void* source, size_t source_size,
            const void* destination, size_t destination_size) {
    if (!address_from(source, source_size, request.source) ||
        !address_from(destination, destination_size, request.destination))
        return EINVAL;
    return command.call(request);
}
int resolve_ip(const CmCommand& command) {
    READ(rdma_ucm_resolve_ip, in);
    abi::CmResolveAddressRequest request;
    request.id = in.id;
    request.timeout_ms = in.timeout_ms;
    return resolve(command, request, &in.src_addr, sizeof in.src_addr, &in.dst_addr, sizeof in.dst_addr);
}
int resolve_address(const CmCommand& command) {
    READ(rdma_ucm_resolve_addr, in);
    abi::CmResolveAddressRequest request;
    request.id = in.id;
    request.timeout_ms = in.timeout_ms;
    return resolve(command, request, &in.src_addr, std::min<size_t>(in.src_size, sizeof in.src_addr), &in.dst_addr,
                   std::min<size_t>(in.dst_size, sizeof in.dst_addr));
}

int resolve_route(const CmCommand& command) {
    READ(rdma_ucm_resolve_route, in);
    return command.call(abi::CmResolveRouteRequest{in.id, in.timeout_ms});
}

int connect_id(const CmCommand& command) {
    READ_UP_TO(rdma_ucm_connect, in, reserved);
    if (in.conn_param.valid == 0) return EINVAL;
    abi::CmConnectRequest request;
    request.id = in.id;
    conn_param_from(in.conn_param, request.param);
    return command.call(request);
}

int listen_id(const CmCommand& command) {
    READ(rdma_ucm_listen, in);
    return command.call(abi::CmListenRequest{in.id, in.backlog});
}

int accept_id(const CmCommand& command) {
    READ_UP_TO(rdma_ucm_accept, in, reserved);
    abi::CmAcceptRequest request;
    request.uid = in.uid;
    request.id = in.id;
    conn_param_from(in.conn_param, request.param);
    return command.call(request);
}

int reject_id(const CmCommand& command) {
    READ(rdma_ucm_reject, in);
    abi::CmRejectRequest request;
    request.id = in.id;
    request.reason = in.reason;
    request.private_data_len = in.private_data_len;
    std::memcpy(request.private_data, in.private_data, sizeof request.private_data);
    return command.call(request);
}

int disconnect_id(const CmCommand& command) {
    READ(rdma_ucm_disconnect, in);
    return command.call(abi::CmDisconnectRequest{in.id});
}

int init_qp_attr(const CmCommand& command) {
    READ(rdma_ucm_init_qp_attr, in);
    abi::CmInitQpAttrReply reply;
    if (const int rc = command.session.call(abi::CmInitQpAttrRequest{in.id, in.qp_state}, reply)) return rc;
    ib_uverbs_qp_attr out{};
    qp_attr_to(reply, out);
    return command.answer(in.response, out);
}

// Blocks like a read of the descriptor: the record on the socket says that there is an event to ask for.
int get_event(const CmCommand& command) {
    READ(rdma_ucm_get_event, in);
    if (command.out_size < offsetof(rdma_ucm_event_resp, reserved)) return ENOSPC;
    // A reference of our own, as the kernel has while a thread is in here: another thread may close the channel, and
    // then this one waits on (rping ends so), neither meeting a closed descriptor nor somebody else's of the same
    // number.
    HeldFd held(command.fd);
    abi::CmGetEventReply reply;
    for (;;) {
        char record;
        const ssize_t n = held.receive(&record, sizeof record);
        if (n < 0 && errno != ECONNRESET) return errno;
        if (n <= 0) {
            (void)command.session.daemon_answers();
            return EIO;
        }
        NoCancel no_cancel;
        Guard guard(command.session.cm_events_lock);
        // Another thread may have taken it, or its event's id was destroyed meanwhile.
        if (recv(held.fd, &record, sizeof record, MSG_DONTWAIT) != sizeof record) continue;
        const int rc = command.session.call(abi::CmGetEventRequest{command.channel}, reply);
        if (rc == 0) break;
        if (rc != EAGAIN) return rc;
    }
    rdma_ucm_event_resp out{};
    out.uid = reply.uid;
    out.id = reply.id;
    out.event = reply.event;
    out.status = static_cast<uint32_t>(reply.status);
    if (reply.datagram != 0)
        ud_param_to(reply, out.param.ud);
    else
        conn_param_to(reply.conn, out.param.conn);
    return command.answer(in.response, out, offsetof(rdma_ucm_event_resp, reserved));
}

int set_option(const CmCommand& command) {
    READ(rdma_ucm_set_option, in);
    abi::CmSetOptionRequest request;
    request.id = in.id;
    request.level = in.level;
    request.option = in.optname;
    request.length = in.optlen;
    if (in.optval == 0) return EINVAL;
    // A path record of the subnet administrator's is longer, and refused by its level.
    if (!guard::copy(request.value, reinterpret_cast<const void*>(in.optval),
                     std::min<size_t>(in.optlen, sizeof request.value)))
        return EFAULT;
    if (request.level == RDMA_OPTION_IB) request.length = std::min<uint32_t>(in.optlen, sizeof request.value);
    return command.call(request);
}

int notify(const CmCommand& command) {
    READ(rdma_ucm_notify, in);
    return command.call(abi::CmNotifyRequest{in.id, in.event});
}

int join(const CmCommand& command, abi::CmJoinRequest request, const void* address, size_t size, uint64_t response) {
    if (command.out_size < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
    if (!address_from(address, size, request.address)) return EINVAL;
    abi::CmJoinReply reply;
    if (const int rc = command.session.call(request, reply)) return rc;
    const int rc = command.answer(response, rdma_ucm_create_id_resp{reply.id});
    abi::CmLeaveReply left;
    if (rc != 0) call_and_withdraw(command, abi::CmLeaveRequest{reply.id}, left, command.channel, command.fd);
    return rc;
}
int join_ip(const CmCommand& command) {
    rdma_ucm_join_ip_mcast in;
    if (!command.read(in, offsetof(rdma_ucm_join_ip_mcast, id) + sizeof in.id)) return EINVAL;
    abi::CmJoinRequest request;
    request.id = in.id;
    request.uid = in.uid;
    return join(command, request, &in.addr, sizeof in.addr, in.response);
}
int join_any(const CmCommand& command) {
    READ(rdma_ucm_join_mcast, in);
    abi::CmJoinRequest request;
    request.id = in.id;
    request.uid = in.uid;
    request.flags = in.join_flags;
    return join(command, request, &in.addr, std::min<size_t>(in.addr_size, sizeof in.addr), in.response);
}

int leave(const CmCommand& command) {
    READ(rdma_ucm_destroy_id, in);
    if (command.out_size < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
    abi::CmLeaveReply reply;
    if (const int rc = call_and_withdraw(command, abi::CmLeaveRequest{in.id}, reply, command.channel, command.fd)) return rc;
    return command.answer(in.response, rdma_ucm_destroy_id_resp{reply.events_reported});
}

// Written to the channel the id goes to; the command names the one it comes from.
int migrate(const CmCommand& command) {
    READ(rdma_ucm_migrate_id, in);
    if (command.out_size < sizeof(rdma_ucm_migrate_resp)) return ENOSPC;
    CmFile from;
    if (!find_cm_file(static_cast<int>(in.fd), from) || from.session != &command.session) return EINVAL;
    abi::CmMigrateReply reply;
    const abi::CmMigrateRequest request{in.id, command.channel};
    if (const int rc = call_and_withdraw(command, request, reply, from.channel, static_cast<int>(in.fd))) return rc;
    return command.answer(in.response, rdma_ucm_migrate_resp{reply.events_reported});
}

constexpr size_t kLongestCommand = 1024;  // of the structure; what is longer is not looked at
using Function = int (*)(const CmCommand&);
constexpr Function kFunctions[] = {
    create_id,        // RDMA_USER_CM_CMD_CREATE_ID
    destroy_id,       // _DESTROY_ID
    bind_ip,          // _BIND_IP
    resolve_ip,       // _RESOLVE_IP
    resolve_route,    // _RESOLVE_ROUTE
    query_cm_route,   // _QUERY_ROUTE
    connect_id,       // _CONNECT
    listen_id,        // _LISTEN
    accept_id,        // _ACCEPT
    reject_id,        // _REJECT
    disconnect_id,    // _DISCONNECT
    init_qp_attr,     // _INIT_QP_ATTR
    get_event,        // _GET_EVENT
    nullptr,          // _GET_OPTION: no kernel ever had it
    set_option,       // _SET_OPTION
    notify,           // _NOTIFY
    join_ip,          // _JOIN_IP_MCAST
    leave,            // _LEAVE_MCAST
    migrate,          // _MIGRATE_ID
    query_cm,         // _QUERY
    bind_any,         // _BIND
    resolve_address,  // _RESOLVE_ADDR
    join_any,         // _JOIN_MCAST
};
static_assert(std::size(kFunctions) == RDMA_USER_CM_CMD_JOIN_MCAST + 1);

}  // namespace

ssize_t write_cm_command(int fd, const CmFile& file, const void* data, size_t size) {
    // The addresses are the program's: what is not there is EFAULT here too, and the command is read once.
    guard::install();
    rdma_ucm_cmd_hdr header;
    std::array<std::byte, kLongestCommand> body;
    if (size < sizeof header) return fail_minus_one(EINVAL);
    if (!guard::copy(&header, data, sizeof header)) return fail_minus_one(EFAULT);
    if (header.cmd >= std::size(kFunctions) || header.in > size - sizeof header) return fail_minus_one(EINVAL);
    const Function function = kFunctions[header.cmd];
    if (function == nullptr) return fail_minus_one(ENOSYS);
    const size_t in = std::min<size_t>(header.in, body.size());
    if (!guard::copy(body.data(), static_cast<const std::byte*>(data) + sizeof header, in)) return fail_minus_one(EFAULT);
    const CmCommand command{fd, *file.session, file.channel, body.data(), in, header.out};
    const int error = function(command);
    return error == 0 ? static_cast<ssize_t>(size) : fail_minus_one(error);
}

}  // namespace rocemu::provider
