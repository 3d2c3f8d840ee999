// SPDX-License-Identifier: BSD-3-Clause
// ControlWorld: the whole control plane with one real shard and two fabric NICs on heap memory, in threads of the test
// or turned by the test itself: no EAL. ControlClient: a hand-written client of abi/messages.h, which can also send
// nonsense.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control/server.h"
#include "support/heap_pool.h"

namespace rocemu::test {

class ControlWorld {
  public:
    enum class Drive { Threads, Turns };
    explicit ControlWorld(const std::function<void(config::Config&)>& change = {}, Drive drive = Drive::Threads) {
        static int count = 0;
        config_ = config::defaults();
        if (change) change(config_);
        path_ = "/tmp/rocemu-test-" + std::to_string(getpid()) + "-" + std::to_string(count++) + ".sock";
        std::vector<std::unique_ptr<control::Device>> devices;
        for (uint32_t i = 0; i < 2; ++i) {
            control::DeviceInit init;
            init.name = "rocemu" + std::to_string(i);
            init.port = "fabric";
            init.addresses = {"10.203.0." + std::to_string(i + 1) + "/24"};
            init.info.mtu = 4200;
            init.info.mac[0] = 2;
            init.info.mac[5] = static_cast<uint8_t>(i + 1);
            init.fabric_nic = switch_.add_nic({2, 0, 0, 0, 0, static_cast<uint8_t>(i + 1)}, 4200, pool_);
            devices.push_back(std::make_unique<control::Device>(i, init));
        }
        for (uint32_t i = 0; i < 2; ++i) {
            engine::DeviceSetup setup;
            setup.id = i;
            setup.name = devices[i]->name();
            setup.port = &switch_.port(i, 0);
            setup.pool = &pool_;
            shard_.add_device(setup);
        }
        if (drive == Drive::Threads) shard_thread_ = std::thread([this] { shard_.run(); });
        listener_ = std::make_unique<control::Listener>(path_, config_.daemon);
        server_ = std::make_unique<control::Server>(config_, loop_, *listener_, std::vector{&shard_},
                                                    std::move(devices), &switch_);
        if (drive == Drive::Threads) control_thread_ = std::thread([this] { server_->run(); });
    }
    ~ControlWorld() {
        const uint64_t one = 1;
        (void)!write(eventfd_, &one, sizeof one);
        if (control_thread_.joinable())
            control_thread_.join();
        else
            shard_thread_ = std::thread([this] { shard_.run(); });
        loop_.remove(eventfd_);
        server_->shut_down(60 * kSecond);  // what it leaves behind would be reported as leaked
        server_.reset();
        shard_.stop();
        shard_thread_.join();
        listener_.reset();
        unlink((path_ + ".lock").c_str());
        close(eventfd_);
    }
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] engine::Shard& shard() { return shard_; }
    // Drive::Turns only.
    [[nodiscard]] control::Control& control() { return server_->control(); }
    // Drive::Turns only: what the two threads would do once.
    void turn() {
        shard_.turn(control::EventLoop::now());
        loop_.turn(0);
    }

  private:
    static int stop_fd(control::EventLoop& loop) {
        const int fd = eventfd(0, EFD_CLOEXEC);
        loop.add(fd, EPOLLIN, [&loop](uint32_t) { loop.stop(); });
        return fd;
    }

    config::Config config_;
    HeapPool pool_;
    fabric::Switch switch_{1};
    engine::Shard shard_{engine::ShardConfig{}};
    control::EventLoop loop_;
    int eventfd_ = stop_fd(loop_);
    std::string path_;
    std::unique_ptr<control::Listener> listener_;
    std::unique_ptr<control::Server> server_;
    std::thread shard_thread_, control_thread_;
};

template <typename Request>
struct ReplyOf;
#define MESSAGE(name, number)                                             \
    template <>                                                           \
    struct ReplyOf<abi::name##Request> {                                  \
        using Type = abi::name##Reply;                                    \
        static constexpr abi::MessageType kType = abi::MessageType::name; \
    };
#include "abi/messages.def"
#undef MESSAGE

class ControlClient {
  public:
    // `turn`: makes the server go on, where no threads do.
    explicit ControlClient(const std::string& path, std::function<void()> turn = {})
        : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), turn_(std::move(turn)) {
        sockaddr_un a{};
        a.sun_family = AF_UNIX;
        std::strcpy(a.sun_path, path.c_str());
        if (connect(fd_, reinterpret_cast<sockaddr*>(&a), sizeof a) != 0) throw std::runtime_error("connect");
        const timeval t{10, 0};
        setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    }
    ~ControlClient() { disconnect(); }
    ControlClient(const ControlClient&) = delete;
    ControlClient& operator=(const ControlClient&) = delete;
    void disconnect() {
        if (fd_ >= 0) close(fd_);
        fd_ = -1;
        for (int fd : fds) close(fd);
        fds.clear();
    }
    // False: there is no room (with turns only), or the connection is gone.
    bool send_bytes(const void* p, size_t n, int with_fd = -1) {
        iovec v{const_cast<void*>(p), n};
        msghdr m{};
        m.msg_iov = &v;
        m.msg_iovlen = 1;
        alignas(cmsghdr) char c[CMSG_SPACE(sizeof(int))] = {};
        if (with_fd >= 0) {
            m.msg_control = c;
            m.msg_controllen = sizeof c;
            auto* h = CMSG_FIRSTHDR(&m);
            h->cmsg_level = SOL_SOCKET;
            h->cmsg_type = SCM_RIGHTS;
            h->cmsg_len = CMSG_LEN(sizeof(int));
            std::memcpy(CMSG_DATA(h), &with_fd, sizeof with_fd);
        }
        return sendmsg(fd_, &m, MSG_NOSIGNAL | (turn_ ? MSG_DONTWAIT : 0)) >= 0;
    }
    template <typename Request>
    void post(const Request& request, int with_fd = -1) {
        std::vector<char> record(sizeof(abi::MessageHeader) + sizeof request);
        abi::MessageHeader h;
        h.type = static_cast<uint16_t>(ReplyOf<Request>::kType);
        h.request_id = ++id_;
        std::memcpy(record.data(), &h, sizeof h);
        std::memcpy(record.data() + sizeof h, &request, sizeof request);
        send_bytes(record.data(), record.size(), with_fd);
    }
    // Status of the next reply, or -1 when the connection is gone. Its fds are appended to `fds`.
    int receive(void* body, size_t size, uint32_t* request_id = nullptr) {
        abi::MessageHeader h;
        iovec v[2] = {{&h, sizeof h}, {body, size}};
        msghdr m{};
        m.msg_iov = v;
        m.msg_iovlen = 2;
        alignas(cmsghdr) char c[CMSG_SPACE(sizeof(int) * 64)];
        m.msg_control = c;
        m.msg_controllen = sizeof c;
        for (int i = 0; turn_ && !readable(0); ++i) {
            if (i == 100'000) throw std::runtime_error("no reply");
            turn_();
        }
        const ssize_t n = recvmsg(fd_, &m, MSG_CMSG_CLOEXEC);
        if (n < static_cast<ssize_t>(sizeof h)) return -1;
        for (auto* k = CMSG_FIRSTHDR(&m); k; k = CMSG_NXTHDR(&m, k))
            for (size_t i = 0; i < (k->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
                int fd;
                std::memcpy(&fd, CMSG_DATA(k) + i * sizeof fd, sizeof fd);
                fds.push_back(fd);
            }
        if (request_id) *request_id = h.request_id;
        return h.status;
    }
    // A reply arrives within that time.
    bool readable(int milliseconds) {
        pollfd p{fd_, POLLIN, 0};
        return poll(&p, 1, milliseconds) > 0;
    }
    template <typename Request>
    int call(const Request& request, typename ReplyOf<Request>::Type& reply, int with_fd = -1) {
        post(request, with_fd);
        return receive(&reply, sizeof reply);
    }
    template <typename Request>
    int call(const Request& request, int with_fd = -1) {
        typename ReplyOf<Request>::Type reply;
        return call(request, reply, with_fd);
    }
    int hello(bool admin = false, uint64_t features = abi::kFeatureProcessVm | abi::kFeatureAgent) {
        abi::HelloRequest r;
        r.features = features;
        r.admin = admin;
        r.probe_va = reinterpret_cast<uint64_t>(&cookie_[0]);
        std::memcpy(r.probe_cookie, cookie_, sizeof cookie_);
        return call(r, welcome);
    }
    // What a program makes first.
    void open(uint32_t device = 0, uint64_t features = abi::kFeatureProcessVm | abi::kFeatureAgent) {
        abi::OpenContextReply c;
        abi::AllocPdReply p;
        abi::CreateCqReply q;
        status = hello(false, features);
        if (status == 0) status = call(abi::OpenContextRequest{device}, c);
        context = c.context;
        if (status == 0) status = call(abi::AllocPdRequest{context}, p);
        pd = p.pd;
        abi::CreateCqRequest cq_request;
        cq_request.context = context;
        cq_request.cqe = 16;
        if (status == 0) status = call(cq_request, q);
        cq = q.cq;
    }
    [[nodiscard]] abi::CreateQpRequest qp_request() const {
        abi::CreateQpRequest r;
        r.pd = pd;
        r.send_cq = r.recv_cq = cq;
        r.type = static_cast<uint32_t>(QpType::Rc);
        r.max_send_wr = r.max_recv_wr = 10;
        r.max_send_sge = r.max_recv_sge = 2;
        r.max_inline_data = 64;
        return r;
    }
    abi::HelloReply welcome;
    std::vector<int> fds;
    uint32_t context = 0, pd = 0, cq = 0;
    int status = -1;

  private:
    int fd_;
    std::function<void()> turn_;
    uint32_t id_ = 0;
    alignas(16) uint8_t cookie_[16] = {9, 8, 7, 6, 5, 4, 3, 2, 1};
};

}  // namespace rocemu::test
