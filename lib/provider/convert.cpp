// SPDX-License-Identifier: BSD-3-Clause
// See convert.h.
#include "provider/convert.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guard/fault_guard.h"
#include "provider/maps_reader.h"
#include "provider/no_cancel.h"
#include "provider/write_barrier.h"

namespace rocemu::provider {
namespace {

constexpr uint64_t kWindowBytes = 64 << 10;
constexpr uint64_t kStackBytes = 64 << 10;  // more than our own frames have

using Page = std::array<std::byte, kPageBytes>;

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// While a window is held a handler of the program might write into it, in this thread, and wait for ever. Faults are not
// blocked: the guarded copy needs their handler.
class NoSignals {
  public:
    NoSignals() {
        sigset_t all;
        sigfillset(&all);
        sigdelset(&all, SIGSEGV);
        sigdelset(&all, SIGBUS);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    NoSignals(const NoSignals&) = delete;
    NoSignals& operator=(const NoSignals&) = delete;

  private:
    NoCancel no_cancel_;
    sigset_t before_;
};

bool is_zero(const Page& page) {
    return page[0] == std::byte{0} && std::memcmp(page.data(), page.data() + 1, page.size() - 1) == 0;
}

int copy_to_file(const ConversionFile& file, uint64_t start, uint64_t bytes, uint64_t offset) {
    Page page;
    for (uint64_t done = 0; done < bytes; done += kPageBytes) {
        if (!guard::copy(page.data(), pointer(start + done), page.size())) return EFAULT;
        if (is_zero(page)) continue;
        const ssize_t n = pwrite(file.fd, page.data(), page.size(), static_cast<off_t>(offset + done));
        if (n != static_cast<ssize_t>(page.size())) return n < 0 ? errno : ENOSPC;
    }
    return 0;
}

int copy_to_stage(uint64_t stage, uint64_t start, uint64_t bytes) {
    Page page;
    for (uint64_t done = 0; done < bytes; done += kPageBytes) {
        if (!guard::copy(page.data(), pointer(start + done), page.size())) return EFAULT;
        if (!is_zero(page)) std::memcpy(pointer(stage + done), page.data(), page.size());
    }
    return 0;
}

// Is the piece still a mapping of the file?
bool still_shared(const ConversionFile& file, const Piece& piece) {
    MapsReader maps;
    Vma vma;
    while (maps.next(vma))
        if (piece.start >= vma.start && piece.start < vma.end)
            return piece.end <= vma.end && vma.shared && vma.is_of(file.device, file.inode) &&
                   vma.offset + (piece.start - vma.start) == piece.offset;
    return false;
}

// The copy of [start, start + bytes) in the stage takes its place. Moved, not made there: nobody meets it half filled.
int replace_by_stage(uint64_t stage, uint64_t start, uint64_t bytes, int protection) {
    if (const int error = copy_to_stage(stage, start, bytes)) return error;
    if (mprotect(pointer(stage), bytes, protection) != 0) return errno;
    return mremap(pointer(stage), bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(start)) != MAP_FAILED ? 0 : errno;
}

}  // namespace

bool near_this_stack(uint64_t start, uint64_t end) {
    const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
    return here + kStackBytes > start && here < end + kStackBytes;
}

int make_shared(const ConversionFile& file, Piece& piece) {
    const uint64_t end = piece.end;
    piece.end = piece.start;
    if (near_this_stack(piece.start, end)) return EBUSY;
    WriteBarrier barrier;
    if (const int error = barrier.open(piece.start, end - piece.start)) return error;
    const NoSignals no_signals;
    while (piece.end < end) {
        const uint64_t at = piece.end, offset = piece.offset + (at - piece.start);
        const uint64_t bytes = std::min(kWindowBytes, end - at);
        if (const int error = barrier.hold(at, bytes)) return error;
        int error = copy_to_file(file, at, bytes, offset);
        if (error == 0 && mmap(pointer(at), bytes, piece.protection, MAP_SHARED | MAP_FIXED, file.fd,
                               static_cast<off_t>(offset)) == MAP_FAILED)
            error = errno;
        if (error != 0) {
            barrier.release(at, bytes);
            return error;
        }
        barrier.wake(at, bytes);
        piece.end += bytes;
    }
    return 0;
}

int make_private(const ConversionFile& file, const Piece& piece, Writers writers) {
    if (near_this_stack(piece.start, piece.end)) return EBUSY;
    // As large as the piece, not as a window: what is moved out of one mapping becomes one mapping again.
    void* area = mmap(nullptr, piece.bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) return errno;
    const auto stage = reinterpret_cast<uint64_t>(area);
    if (piece.dont_fork) madvise(area, piece.bytes(), MADV_DONTFORK);
    if (piece.dont_dump) madvise(area, piece.bytes(), MADV_DONTDUMP);
    uint64_t done = 0;
    int error = piece.locked && mlock(area, piece.bytes()) != 0 ? errno : 0;
    {
        WriteBarrier barrier;
        const NoSignals no_signals;
        if (writers == Writers::Wait) {
            if (error == 0) error = barrier.open(piece.start, piece.bytes());
            // Behind open(): what the program puts there from now on cannot be held.
            if (error == 0 && !still_shared(file, piece)) error = ESTALE;
        }
        while (error == 0 && done < piece.bytes()) {
            const uint64_t at = piece.start + done, bytes = std::min(kWindowBytes, piece.bytes() - done);
            if (writers == Writers::Wait && (error = barrier.hold(at, bytes)) != 0) break;
            error = replace_by_stage(stage + done, at, bytes, piece.protection);
            if (writers == Writers::Wait) {
                if (error == 0)
                    barrier.wake(at, bytes);
                else
                    barrier.release(at, bytes);
            }
            if (error == 0) done += bytes;
        }
    }
    if (done < piece.bytes()) munmap(pointer(stage + done), piece.bytes() - done);
    return error;
}

}  // namespace rocemu::provider
