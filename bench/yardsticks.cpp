// SPDX-License-Identifier: BSD-3-Clause
// What the fabric is compared with, each measured for a moment and printed as Gbit/s:
//   yardsticks roofline   one core copies and sums 4096-byte payloads (what every NIC in software must do at least
//   once) yardsticks tcp        kernel TCP over loopback between two processes, 64 KiB writes (as iperf3 does with -l
//   64K)
// and, in ns:
//   yardsticks cores      a round trip of a cache line between two processors: it decides what end-to-end figures can be
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "measure.h"
#include "wire/crc32.h"

using namespace rocemu;

namespace {

constexpr double kSeconds = 1.0;

double now() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double roofline() {
    constexpr size_t kFrames = 64, kPayload = 4096, kStride = 4608;
    std::vector<std::byte> src(kFrames * kPayload, std::byte{1}), dst(kFrames * kStride);
    volatile uint32_t sum = 0;
    double bytes = 0;
    const double start = now();
    while (now() - start < kSeconds) {
        for (size_t i = 0; i < kFrames; ++i) {
            std::memcpy(&dst[i * kStride], &src[i * kPayload], kPayload);
            sum = sum ^ wire::crc32_update(0, &dst[i * kStride], kPayload);
        }
        bytes += kFrames * kPayload;
    }
    return bytes * 8e-9 / (now() - start);
}

// Never returns.
[[noreturn]] void tcp_sender(uint16_t port) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = port;
    if (connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) != 0) _exit(1);
    std::vector<char> buffer(65536, 1);
    while (send(fd, buffer.data(), buffer.size(), MSG_NOSIGNAL) > 0) {
    }
    _exit(0);
}

double tcp() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof a;
    if (bind(listener, reinterpret_cast<sockaddr*>(&a), sizeof a) != 0 || listen(listener, 1) != 0) return 0;
    getsockname(listener, reinterpret_cast<sockaddr*>(&a), &size);
    const pid_t child = fork();
    if (child == 0) tcp_sender(a.sin_port);
    const int fd = accept(listener, nullptr, nullptr);
    std::vector<char> buffer(65536);
    double bytes = 0, start = 0;
    for (;;) {
        const ssize_t n = recv(fd, buffer.data(), buffer.size(), 0);
        if (n <= 0) break;
        if (start == 0)
            start = now();
        else
            bytes += static_cast<double>(n);
        if (now() - start >= kSeconds) break;
    }
    const double rate = bytes * 8e-9 / (now() - start);
    close(fd);
    close(listener);
    waitpid(child, nullptr, 0);
    return rate;
}

// The number of this process's n-th processor, or -1.
int processor(int n) {
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0) return -1;
    for (int i = 0; i < CPU_SETSIZE; ++i)
        if (CPU_ISSET(i, &all) && n-- == 0) return i;
    return -1;
}

void pin(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

// The median of short rounds: most of them nobody else has cut into. 0 where there is one processor only.
double cores() {
    const int first = processor(0), second = processor(1);
    if (second < 0) return 0;
    alignas(128) std::atomic<uint32_t> ball{0};  // even: ours
    alignas(128) std::atomic<bool> stop{false};
    std::thread other([&] {
        pin(second);
        for (uint32_t i = 1; !stop.load(std::memory_order_relaxed);)
            if (ball.load(std::memory_order_acquire) == i) {
                ball.store(i + 1, std::memory_order_release);
                i += 2;
            }
    });
    pin(first);
    constexpr uint32_t kTrips = 200;
    std::vector<double> rounds;
    uint32_t i = 0;
    for (const double start = now(); now() - start < kSeconds;) {
        const double begin = now();
        for (uint32_t n = 0; n < kTrips; ++n, i += 2) {
            ball.store(i + 1, std::memory_order_release);
            while (ball.load(std::memory_order_acquire) != i + 2) {
            }
        }
        rounds.push_back((now() - begin) * 1e9 / kTrips);
    }
    stop.store(true, std::memory_order_relaxed);
    other.join();
    return bench::median(rounds);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::strcmp(argv[1], "roofline") == 0)
        std::printf("%.2f\n", roofline());
    else if (argc == 2 && std::strcmp(argv[1], "tcp") == 0)
        std::printf("%.2f\n", tcp());
    else if (argc == 2 && std::strcmp(argv[1], "cores") == 0)
        std::printf("%.0f\n", cores());
    else
        return std::fprintf(stderr, "usage: yardsticks roofline|tcp|cores\n"), 2;
    return 0;
}
