// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer target for the write() interface of the rdma_cm device (provider/cm_write.h): the input is what a program
// writes, command by command, and what a daemon answers, which is made up too. Whatever both say: no byte is read behind
// what was written or put behind the room for the answer, what goes over the border to the daemon is well formed, and
// the result is that of write(2). Pointers of commands lead to the answer, to nowhere, or to memory that ends early.
// The connection to the daemon is this file's: see Connection::exchange below.
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "provider/cm_write.h"
#include "tests/fuzz/input.h"

using namespace rocemu;
using namespace rocemu::provider;
using rocemu::fuzz::check;
using rocemu::fuzz::Input;

namespace {

constexpr uint32_t kChannel = 7;
constexpr size_t kPage = 4096;
constexpr std::byte kUntouched{0xa5};

Input input;  // of this run: the commands, and what the daemon answers
CmFile file;
int sockets[2];
size_t calls;

// Two pages of which the second is not there: what is read or written too far is seen as EFAULT.
std::byte* end_of_memory() {
    static std::byte* const end = [] {
        void* const p = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(p != MAP_FAILED && mprotect(static_cast<std::byte*>(p) + kPage, kPage, PROT_NONE) == 0);
        return static_cast<std::byte*>(p) + kPage;
    }();
    return end;
}

void check_address(const abi::CmAddress& a) {
    check(a.family == 0 || a.family == 4 || a.family == 6);
}

// What the daemon is promised of each request.
void check_request(abi::MessageType type, const void* request, size_t bytes) {
    const auto as = [&]<typename T>(T copy) {
        check(bytes == sizeof copy);
        std::memcpy(static_cast<void*>(&copy), request, sizeof copy);
        return copy;
    };
    switch (type) {
        case abi::MessageType::CmBind:
            check_address(as(abi::CmBindRequest{}).address);
            check(as(abi::CmBindRequest{}).address.family != 0);
            break;
        case abi::MessageType::CmResolveAddress:
            check_address(as(abi::CmResolveAddressRequest{}).source);
            check_address(as(abi::CmResolveAddressRequest{}).destination);
            break;
        case abi::MessageType::CmJoin:
            check_address(as(abi::CmJoinRequest{}).address);
            break;
        case abi::MessageType::CmConnect:
            check(as(abi::CmConnectRequest{}).param.valid != 0);
            break;
        case abi::MessageType::CmCreateId:
            check(as(abi::CmCreateIdRequest{}).channel == kChannel);
            break;
        case abi::MessageType::CmGetEvent:
            check(as(abi::CmGetEventRequest{}).channel == kChannel);
            break;
        case abi::MessageType::CmMigrate:
            check(as(abi::CmMigrateRequest{}).channel == kChannel);
            break;
        default:
            break;
    }
}

// Where a command's pointers lead.
struct Room {
    std::byte* answer;
    uint64_t pick(uint8_t how) const {
        switch (how % 8) {
            case 0:
                return 0;
            case 1:
                return 16;
            case 2:
                return reinterpret_cast<uint64_t>(end_of_memory()) - how / 8;
            case 3:
                return reinterpret_cast<uint64_t>(end_of_memory());
            default:
                return reinterpret_cast<uint64_t>(answer);
        }
    }
};

void one_command(Input& in) {
    static std::array<std::byte, 65536 + 64> room;
    rdma_ucm_cmd_hdr header{};
    header.cmd = in.byte() % (RDMA_USER_CM_CMD_JOIN_MCAST + 2);
    const uint8_t how = in.byte();
    // Room for an answer that almost fits, or fits just so; or any.
    constexpr size_t kAnswers[] = {sizeof(rdma_ucm_create_id_resp), sizeof(rdma_ucm_query_route_resp), sizeof(rdma_ucm_query_addr_resp),
                                   sizeof(ib_uverbs_qp_attr), sizeof(rdma_ucm_event_resp), 8 + sizeof(ib_path_rec_data)};
    header.out = 1024;
    if (how & 1) header.out = static_cast<uint16_t>(kAnswers[in.byte() % std::size(kAnswers)] - in.byte() % 24u + 8u);
    if ((how & 0x0e) == 0x0e) header.out = in.half();
    // As much as the largest structure, or less, or more.
    const size_t body = how & 0x10 ? in.half() % 1500 : 320 + (how & 0x20 ? in.byte() : 0);
    header.in = static_cast<uint16_t>(body);
    if ((how & 0xc0) == 0xc0) header.in = in.half();
    std::vector<std::byte> record(sizeof header + body);
    std::byte* const contents = record.data() + sizeof header;
    std::memcpy(record.data(), &header, sizeof header);
    // Most begin with where the answer goes and an id; the others are small numbers and addresses.
    const Room where{room.data()};
    const uint8_t fields = in.byte();
    for (unsigned i = 0; i < fields % 24u; ++i) {
        const size_t at = in.byte() * 4u;
        const uint8_t kind = in.byte();
        uint64_t value = in.byte();
        size_t size = 4;
        if (kind & 1) value = where.pick(in.byte()), size = 8;
        if ((kind & 3) == 2) value = in.word();
        if ((kind & 7) == 4) value = kind & 8 ? AF_INET : AF_INET6;
        if (at + size <= body) std::memcpy(contents + at, &value, size);
    }
    if (in.byte() & 1 && body >= 8) {
        const uint64_t answer = where.pick(4);
        std::memcpy(contents + (header.cmd == RDMA_USER_CM_CMD_CREATE_ID ? 8 : 0), &answer, sizeof answer * (body >= 16));
    }
    if (header.cmd == RDMA_USER_CM_CMD_GET_EVENT && in.byte() & 1) {
        const char one = 0;
        (void)!send(sockets[1], &one, sizeof one, MSG_DONTWAIT);
    }
    // What is written lies at the very end of memory when it fits, cut short now and then.
    size_t size = record.size();
    if (in.byte() % 8 == 0) size = std::min<size_t>(size, in.byte());
    const void* data = record.data();
    if (size <= 1024) {
        std::memcpy(end_of_memory() - size, record.data(), size);
        data = end_of_memory() - size;
    }
    std::fill_n(room.begin(), header.out + 64u, kUntouched);
    errno = 0;
    const ssize_t rc = write_cm_command(sockets[0], file, data, size);
    check(rc == static_cast<ssize_t>(size) || (rc == -1 && errno > 0));
    if (size < sizeof header) check(rc == -1 && errno == EINVAL);
    for (size_t i = header.out; i < header.out + 64u; ++i) check(room[i] == kUntouched);
}

}  // namespace

namespace rocemu::provider {

// The daemon: any errno value, or an answer of any bytes.
int Connection::exchange(abi::MessageType type, const void* request, size_t request_bytes, Waiter self, std::span<const int>) {
    check_request(type, request, request_bytes);
    const uint8_t how = input.byte();
    // An event's id may be gone again and again, but a record on the socket leads to one question.
    check(++calls < 100000);
    if (how % 8 == 0) return 1 + input.byte() % 120;
    const auto bytes = input.bytes(how % 4 == 0 ? input.half() % 512 : 64);
    std::memset(self.reply, how % 3 == 0 ? 0xff : 0, self.reply_bytes);
    if (!bytes.empty()) std::memcpy(self.reply, bytes.data(), std::min(bytes.size(), self.reply_bytes));
    return 0;
}
void Session::after_call() {}
bool Session::daemon_answers() { return true; }
void Session::mark_dead() {}
Session* Session::open(int*) {
    return new Session;
}
bool find_cm_file(int fd, CmFile& out) {
    if (fd != sockets[0]) return false;
    out = file;
    return true;
}

}  // namespace rocemu::provider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static Session* const session = Session::open(nullptr);
    if (file.session == nullptr) {
        check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
        file = {session, kChannel};
    }
    input = {data, size};
    calls = 0;
    while (input.size > 0) one_command(input);
    return 0;
}
