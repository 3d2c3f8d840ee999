// SPDX-License-Identifier: BSD-3-Clause
// See hostile.h: regions with files behind them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostile.h"
#include "provider/connection.h"

namespace hostile {

using namespace rocemu;

uint32_t register_file(provider::Connection& connection, Random& random, uint32_t pd, std::span<const uint8_t> buffer,
                       int other_file, uint32_t old_key) {
    const int fd = random.one_in(6) ? dup(other_file) : memfd_create("hostile", MFD_CLOEXEC);
    [[maybe_unused]] int rc = ftruncate(fd, 65536);
    struct stat st {};
    fstat(fd, &st);
    abi::RegMrRequest mr;
    mr.pd = pd;
    mr.access = 0xf;
    const bool right = !random.one_in(4);
    mr.va = mr.iova = right ? reinterpret_cast<uint64_t>(buffer.data()) : random.nasty();
    mr.length = right ? buffer.size() : random.nasty();
    mr.file.va = random.one_in(4) ? random.nasty() : mr.va + random.below(2) * 4096;
    mr.file.length = random.one_in(4) ? random.nasty() : uint64_t{4096} << random.below(5);
    mr.file.offset = random.one_in(3) ? random.nasty() : 0;
    mr.file.device = st.st_dev;
    mr.file.inode = st.st_ino;
    mr.file.share_error = random.below(200);
    abi::RegMrReply key;
    if (connection.call(mr, key, {&fd, 1}) != 0) key.key = 0;
    const abi::ReregMrRequest moved{old_key, random.below(8), pd, mr.access, mr.va, mr.length, mr.file};
    abi::ReregMrReply same;
    if (random.one_in(3)) connection.call(moved, same, {&fd, 1});
    rc = ftruncate(fd, random.below(65536));
    close(fd);
    return key.key;
}

}  // namespace hostile
