// SPDX-License-Identifier: BSD-3-Clause
// The pull path. A batch that fails is continued piece by piece, so that the first bad piece is known exactly.
#include "payload/process_vm.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace rocemu::payload {
namespace {

constexpr size_t kBatchPieces = 256;  // below IOV_MAX, with room for the split of the last range
constexpr uint32_t kTailBytes = 8;

struct Vectors {
    std::array<iovec, kBatchPieces> local;
    std::array<iovec, kBatchPieces + 1> remote;
    size_t locals = 0, remotes = 0;
    uint64_t bytes = 0;

    void add(const Piece& piece) {
        local[locals++] = {piece.local, piece.length};
        bytes += piece.length;
        if (remotes > 0) {
            iovec& last = remote[remotes - 1];
            if (reinterpret_cast<uint64_t>(last.iov_base) + last.iov_len == piece.va) {
                last.iov_len += piece.length;
                return;
            }
        }
        remote[remotes++] = {reinterpret_cast<void*>(piece.va), piece.length};
    }
    void split_tail() {
        iovec& last = remote[remotes - 1];
        if (last.iov_len <= kTailBytes) return;
        last.iov_len -= kTailBytes;
        remote[remotes++] = {static_cast<char*>(last.iov_base) + last.iov_len, kTailBytes};
    }
    [[nodiscard]] ssize_t call(int pid, Direction direction) const {
        return direction == Direction::FromSpace
                   ? process_vm_readv(pid, local.data(), locals, remote.data(), remotes, 0)
                   : process_vm_writev(pid, local.data(), locals, remote.data(), remotes, 0);
    }
};

// One call for `pieces`; how many bytes it moved, or -errno.
int64_t one_call(int pid, Direction direction, std::span<const Piece> pieces, bool last, VmOutcome& outcome) {
    Vectors v;
    for (const Piece& piece : pieces) v.add(piece);
    if (last && direction == Direction::ToSpace) v.split_tail();
    ++outcome.calls;
    const ssize_t n = v.call(pid, direction);
    if (n < 0) return -errno;
    outcome.bytes += static_cast<uint64_t>(n);
    return n;
}

}  // namespace

VmOutcome process_vm_copy(int pid, Direction direction, std::span<const Piece> pieces) {
    VmOutcome outcome;
    size_t batch = kBatchPieces;
    while (outcome.complete < pieces.size()) {
        const auto rest = pieces.subspan(outcome.complete);
        const auto now = rest.first(std::min(batch, rest.size()));
        int64_t n = one_call(pid, direction, now, now.size() == rest.size(), outcome);
        if (n < 0 && n != -EFAULT) {
            outcome.error = static_cast<int>(-n);
            return outcome;
        }
        size_t complete = 0;
        while (complete < now.size() && n >= now[complete].length) n -= now[complete++].length;
        outcome.complete += static_cast<uint32_t>(complete);
        if (complete == now.size()) continue;
        if (now.size() == 1) {
            outcome.error = EFAULT;
            return outcome;
        }
        batch = 1;
    }
    return outcome;
}

}  // namespace rocemu::payload
