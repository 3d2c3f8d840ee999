// SPDX-License-Identifier: BSD-3-Clause
// Memory that is a file: shared mappings, which the daemon may map too, behave as any other memory; a private mapping of
// a file is not the file; another file at an address is another memory; a file that was truncated is an error.
#include <algorithm>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_rules.h"

namespace rules {
namespace {

constexpr uint32_t kBytes = 1 << 18;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct File {
    int fd = memfd_create("verbs_rules", MFD_CLOEXEC);
    File() { EQUAL(ftruncate(fd, kBytes), 0); }
    ~File() { close(fd); }
    bool all(uint32_t offset, uint32_t length, uint8_t byte) const {
        std::vector<uint8_t> bytes(length);
        return pread(fd, bytes.data(), length, offset) == static_cast<ssize_t>(length) &&
               std::all_of(bytes.begin(), bytes.end(), [&](uint8_t c) { return c == byte; });
    }
};

void* map(const File& file, int flags, void* at = nullptr, off_t offset = 0) {
    return mmap(at, kBytes - static_cast<size_t>(offset), PROT_READ | PROT_WRITE, flags, file.fd, offset);
}

// Does another process meet a lock on the file? Ours keep off everybody but us.
bool locked(int fd) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        struct flock lock{};
        lock.l_type = F_WRLCK;
        _exit(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

// fcntl(2): closing any descriptor of a file would end the program's locks on it.
void locks_stay(Nic& nic) {
    const std::string path = "/dev/shm/verbs_rules-" + std::to_string(getpid());
    for (const bool read_only : {false, true}) {
        int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        EQUAL(ftruncate(fd, kBytes), 0);
        void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (read_only) {  // what cannot be sent along for writing
            close(fd);
            fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        }
        struct flock lock{};
        lock.l_type = static_cast<short>(read_only ? F_RDLCK : F_WRLCK);
        EQUAL(fcntl(fd, F_SETLK, &lock), 0);
        RULE(locked(fd));
        ibv_mr* mr = ibv_reg_mr(nic.pd, p, kBytes, kAccess);
        RULE(mr != nullptr && locked(fd));
        EQUAL(ibv_dereg_mr(mr), 0);
        RULE(locked(fd));
        munmap(p, kBytes);
        close(fd);
    }
    unlink(path.c_str());
}

}  // namespace

void mapped(Nic& na, Nic& nb) {
    group = "mapped";
    Side a, b;
    RULE(a.make(na, 64) && b.make(nb, 64) && connect(a, b));
    File first, second;

    void* p = map(first, MAP_SHARED);
    ibv_mr* mr = ibv_reg_mr(nb.pd, p, kBytes, kAccess);
    RULE(mr != nullptr);
    std::fill_n(a.memory.begin(), kBytes, uint8_t{0x21});
    EQUAL(a.transfer(IBV_WR_RDMA_WRITE, p, mr->rkey, kBytes - 3), IBV_WC_SUCCESS);
    RULE(first.all(0, kBytes - 3, 0x21) && first.all(kBytes - 3, 3, 0));
    std::fill_n(a.memory.begin(), kBytes, uint8_t{0});
    EQUAL(a.transfer(IBV_WR_RDMA_READ, static_cast<uint8_t*>(p) + 1, mr->rkey, 5000), IBV_WC_SUCCESS);
    RULE(std::count(a.memory.begin(), a.memory.begin() + 5000, 0x21) == 5000 && a.memory[5000] == 0);
    EQUAL(ibv_dereg_mr(mr), 0);

    // The same address, another file, mapped from the middle.
    RULE(map(second, MAP_SHARED | MAP_FIXED, p, 8192) == p);
    mr = ibv_reg_mr(nb.pd, p, kBytes - 8192, kAccess);
    RULE(mr != nullptr);
    std::fill_n(a.memory.begin(), kBytes, uint8_t{0x43});
    EQUAL(a.transfer(IBV_WR_RDMA_WRITE, p, mr->rkey, 20000), IBV_WC_SUCCESS);
    RULE(second.all(8192, 20000, 0x43) && second.all(0, 8192, 0) && first.all(0, 20000, 0x21));
    EQUAL(ibv_dereg_mr(mr), 0);

    // A private mapping: the file stays as it is.
    RULE(map(first, MAP_PRIVATE | MAP_FIXED, p) == p);
    mr = ibv_reg_mr(nb.pd, p, kBytes, kAccess);
    RULE(mr != nullptr);
    EQUAL(a.transfer(IBV_WR_RDMA_WRITE, p, mr->rkey, 20000), IBV_WC_SUCCESS);
    RULE(first.all(0, 20000, 0x21) && *static_cast<uint8_t*>(p) == 0x43);
    EQUAL(ibv_dereg_mr(mr), 0);

    // The file is cut off under the registration.
    RULE(map(first, MAP_SHARED | MAP_FIXED, p) == p);
    mr = ibv_reg_mr(nb.pd, p, kBytes, kAccess);
    RULE(mr != nullptr);
    EQUAL(a.transfer(IBV_WR_RDMA_WRITE, p, mr->rkey, 20000), IBV_WC_SUCCESS);
    EQUAL(ftruncate(first.fd, 0), 0);
    const int status = a.transfer(IBV_WR_RDMA_WRITE, p, mr->rkey, 20000);
    RULE(status != IBV_WC_SUCCESS && status != -1);
    a.destroy();
    b.destroy();
    EQUAL(ibv_dereg_mr(mr), 0);
    EQUAL(munmap(p, kBytes), 0);
    locks_stay(na);
    Side c, d;
    RULE(c.make(na, 64) && d.make(nb, 64) && connect(c, d));
    std::fill_n(c.memory.begin(), 100, uint8_t{0x55});
    EQUAL(c.transfer(IBV_WR_RDMA_WRITE, d.memory.data(), d.mr->rkey, 100), IBV_WC_SUCCESS);
    RULE(d.memory[99] == 0x55);
    c.destroy();
    d.destroy();
}

}  // namespace rules
