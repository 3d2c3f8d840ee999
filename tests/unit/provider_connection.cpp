// SPDX-License-Identifier: BSD-3-Clause
// The provider's control connection against a daemon that is written here: many threads with requests under way, replies in
// any order, with descriptors; what fork leaves of it; and a peer that dies or speaks nonsense, after which nothing works
// any more, and the peer sees the end, so that a daemon lets go of what the program believes to be gone.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "provider/connection.h"

using namespace rocemu;
using abi::ListDeviceReply;
using abi::ListDeviceRequest;

namespace {

// The other end: reads ListDevice requests and answers them with their own index, when and in which order the test says.
class Daemon {
  public:
    struct Asked {
        abi::MessageHeader header;
        uint32_t index;
    };

    Daemon() {
        const std::string path = "/tmp/rocemu-test-" + std::to_string(getpid()) + "-connection.sock";
        const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, path.c_str());
        REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
        REQUIRE(listen(listener, 1) == 0);
        REQUIRE(connection.connect(path.c_str(), 20'000) == 0);
        peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        REQUIRE(peer >= 0);
        const timeval limit{20, 0};
        setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        close(listener);
        unlink(path.c_str());
    }
    ~Daemon() { die(); }

    // False: the connection has ended, or nobody asks for long.
    bool next(Asked& asked) {
        struct {
            abi::MessageHeader header;
            ListDeviceRequest request;
        } record;
        if (recv(peer, &record, sizeof record, 0) != sizeof record) return false;
        asked = {record.header, record.request.index};
        return true;
    }
    // `fd`: goes along and is closed here.
    void answer(const Asked& asked, int fd = -1) {
        struct {
            abi::MessageHeader header;
            ListDeviceReply reply;
        } record;
        record.header.type = asked.header.type;
        record.header.request_id = asked.header.request_id;
        record.reply.index = asked.index;
        iovec part{&record, sizeof record};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
        if (fd >= 0) {
            message.msg_control = control;
            message.msg_controllen = sizeof control;
            cmsghdr* c = CMSG_FIRSTHDR(&message);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(sizeof fd);
            std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
        }
        (void)sendmsg(peer, &message, MSG_NOSIGNAL);
        if (fd >= 0) close(fd);
    }
    void die() {
        if (peer >= 0) close(peer);
        peer = -1;
    }

    provider::Connection connection;
    int peer = -1;
};

int ask(provider::Connection& connection, uint32_t index, uint32_t* answer = nullptr, provider::Arrival* arrival = nullptr) {
    ListDeviceReply reply;
    const int rc = connection.call(ListDeviceRequest{index}, reply, {}, arrival);
    if (answer != nullptr) *answer = reply.index;
    return rc;
}

// A pipe's reading end, out of which `number` can be read.
int fd_that_says(uint32_t number) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    (void)!write(ends[1], &number, sizeof number);
    close(ends[1]);
    return ends[0];
}

}  // namespace

TEST_CASE("a call that waits for its answer keeps no other thread from calling") {
    Daemon daemon;
    constexpr uint32_t kSlow = 1000, kQuick = 100;
    std::atomic<int> slow_result{-1};
    std::atomic<uint32_t> quick_done{0};
    Daemon::Asked slow{}, asked{};
    std::thread first([&] { slow_result = ask(daemon.connection, kSlow); });
    REQUIRE(daemon.next(slow));
    REQUIRE(slow.index == kSlow);
    std::thread second([&] {
        uint32_t answer = 0;
        for (uint32_t i = 0; i < kQuick; ++i)
            if (ask(daemon.connection, i, &answer) == 0 && answer == i) ++quick_done;
    });
    bool all = true;
    for (uint32_t i = 0; i < kQuick && all; ++i) {
        all = daemon.next(asked);
        if (all) daemon.answer(asked);
    }
    CHECK(all);
    if (all) second.join();
    CHECK(quick_done == (all ? kQuick : 0));
    CHECK(slow_result == -1);
    daemon.answer(slow);
    first.join();
    CHECK(slow_result == 0);
    if (!all) daemon.die();
    if (second.joinable()) second.join();
}

TEST_CASE("replies in another order reach their callers, each with its descriptor") {
    Daemon daemon;
    constexpr uint32_t kThreads = 8, kRounds = 50;
    std::atomic<uint32_t> right{0};
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            for (uint32_t round = 0; round < kRounds; ++round) {
                const uint32_t index = round * kThreads + t;
                provider::FdList fds;
                provider::KeepFds keep(fds);
                uint32_t answer = 0, said = 0;
                if (ask(daemon.connection, index, &answer, &keep) != 0 || answer != index || fds.size() != 1) return;
                const int fd = fds.take(0);
                if (read(fd, &said, sizeof said) == sizeof said && said == index) ++right;
                close(fd);
            }
        });
    std::mt19937 random(1);
    for (uint32_t round = 0; round < kRounds; ++round) {
        std::vector<Daemon::Asked> asked(kThreads);
        for (auto& a : asked) REQUIRE(daemon.next(a));
        std::shuffle(asked.begin(), asked.end(), random);
        for (const auto& a : asked) daemon.answer(a, fd_that_says(a.index));
    }
    for (auto& t : threads) t.join();
    CHECK(right == kThreads * kRounds);
}

TEST_CASE("what comes with a reply is taken in the order of the replies, whoever waits for them") {
    Daemon daemon;
    struct Note final : provider::Arrival {
        Note(std::vector<uint32_t>& l, uint32_t n) : list(l), number(n) {}
        void arrived(provider::FdList&) override { list.push_back(number); }
        std::vector<uint32_t>& list;
        uint32_t number;
    };
    std::vector<uint32_t> order;  // only ever one thread reads
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            Note note(order, i);
            ask(daemon.connection, i, nullptr, &note);
        });
    std::vector<Daemon::Asked> asked(4);
    for (auto& a : asked) REQUIRE(daemon.next(a));
    std::sort(asked.begin(), asked.end(), [](const auto& a, const auto& b) { return a.index > b.index; });
    for (const auto& a : asked) daemon.answer(a);
    for (auto& t : threads) t.join();
    CHECK(order == std::vector<uint32_t>{3, 2, 1, 0});
}

TEST_CASE("all that wait learn of the daemon's death") {
    Daemon daemon;
    std::atomic<uint32_t> told{0};
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 8; ++i)
        threads.emplace_back([&, i] {
            if (ask(daemon.connection, i) == EIO) ++told;
        });
    Daemon::Asked asked{};
    for (uint32_t i = 0; i < 8; ++i) REQUIRE(daemon.next(asked));
    daemon.die();
    for (auto& t : threads) t.join();
    CHECK(told == 8);
    CHECK(daemon.connection.broken());
    CHECK(ask(daemon.connection, 0) == EIO);
}

TEST_CASE("after an answer that is none the other end sees the end of the connection") {
    Daemon daemon;
    std::thread answer([&] {
        Daemon::Asked asked{};
        if (daemon.next(asked)) (void)send(daemon.peer, "no", 2, MSG_NOSIGNAL);
    });
    CHECK(ask(daemon.connection, 0) == EIO);
    answer.join();
    CHECK(daemon.connection.broken());
    char byte;
    CHECK(recv(daemon.peer, &byte, sizeof byte, 0) == 0);
    CHECK(ask(daemon.connection, 0) == EIO);
}

TEST_CASE("an answer to what nobody asked is none") {
    Daemon daemon;
    std::thread answer([&] {
        Daemon::Asked asked{};
        if (!daemon.next(asked)) return;
        ++asked.header.request_id;
        daemon.answer(asked);
    });
    CHECK(ask(daemon.connection, 0) == EIO);
    answer.join();
}

namespace {

// ThreadSanitizer keeps signals back from a thread that sleeps in a system call which it does not know.
#if defined(__SANITIZE_THREAD__)
constexpr bool kSignalsArrive = false;
#elif defined(__has_feature)
constexpr bool kSignalsArrive = !__has_feature(thread_sanitizer);
#else
constexpr bool kSignalsArrive = true;
#endif

provider::Connection* inherited = nullptr;
std::atomic<pid_t> child{0};
const pid_t parent = getpid();

void fork_here(int) {
    const pid_t pid = fork();
    if (pid == 0)
        inherited->forget();  // as the provider's handler of pthread_atfork(3) does
    else
        child = pid;
}

int exit_code(pid_t pid) {
    int status = 0;
    for (int i = 0; i < 20'000; ++i) {
        if (waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        usleep(1000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

}  // namespace

TEST_CASE("a forked child waits for no thread that it does not have") {
    Daemon daemon;
    inherited = &daemon.connection;
    // One thread reads, the other one sleeps until it is told.
    std::atomic<int> ended{0};
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 2; ++i)
        threads.emplace_back([&, i] {
            const int rc = ask(daemon.connection, i);
            if (getpid() != parent) _exit(rc == EIO ? 7 : 1);
            if (rc == 0) ++ended;
        });
    Daemon::Asked asked[2];
    for (auto& a : asked) REQUIRE(daemon.next(a));
    const pid_t pid = fork();
    if (pid == 0) {
        daemon.connection.forget();
        _exit(ask(daemon.connection, 0) == EIO ? 7 : 1);
    }
    CHECK(exit_code(pid) == 7);

    // A signal handler may fork, also in a thread that is in a call.
    if (kSignalsArrive) {
        struct sigaction action {}, before {};
        action.sa_handler = fork_here;
        action.sa_flags = SA_RESTART;
        sigaction(SIGUSR1, &action, &before);
        for (auto& t : threads) {
            child = 0;
            pthread_kill(t.native_handle(), SIGUSR1);
            while (child == 0) usleep(1000);
            CHECK(exit_code(child) == 7);
        }
        sigaction(SIGUSR1, &before, nullptr);
    }
    // The parent's calls go on.
    for (const auto& a : asked) daemon.answer(a);
    for (auto& t : threads) t.join();
    CHECK(ended == 2);
}
