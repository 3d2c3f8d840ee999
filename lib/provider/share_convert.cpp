// SPDX-License-Identifier: BSD-3-Clause
// Share: which pages are converted, and the file. Converted is plain private anonymous memory only, the heap (brk)
// included: no file, no stack, no huge pages, nothing locked, advised or registered with userfaultfd otherwise.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard/fault_guard.h"
#include "provider/high_fd.h"
#include "provider/maps_reader.h"
#include "provider/share.h"
#include "provider/share_slots.h"
#include "provider/write_barrier.h"

namespace rocemu::provider {
namespace {

// VmFlags (proc(5)) of plain memory. Any other says that the program has asked for something that the new mapping would
// not have (locked, not for children, not for core dumps, ...), or that it is a stack, huge pages or somebody's trap.
constexpr std::string_view kPlain = "rd wr mr mw me ac sd nr hg nh ";

bool is_plain(const Vma& vma) {
    if (vma.shared || vma.inode != 0 || !vma.readable || vma.executable) return false;
    if (vma.name[0] == 0 || std::strcmp(vma.name, "[heap]") == 0) return true;
    return std::strncmp(vma.name, "[anon:", 6) == 0 && std::strstr(vma.name, "stack") == nullptr;
}

// Of the calling thread, if it is not the first, whose is not plain. Empty: not known.
void own_stack(uint64_t& start, uint64_t& end) {
    start = end = 0;
    pthread_attr_t attributes;
    if (gettid() == getpid() || pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    void* base = nullptr;
    size_t bytes = 0;
    pthread_attr_getstack(&attributes, &base, &bytes);
    pthread_attr_destroy(&attributes);
    start = reinterpret_cast<uint64_t>(base);
    end = start + bytes;
}

// Each page is looked at: what is larger was never meant to be there as a whole (and no adapter could pin it).
uint64_t physical_memory() { return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * kPageBytes; }

// The file is written at offsets that no limit may forbid: it would send a signal (setrlimit(2), RLIMIT_FSIZE).
bool file_size_is_limited() {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

bool Share::file_is_open() const {
    struct stat st{};
    return file_.fd >= 0 && fstat(file_.fd, &st) == 0 && st.st_dev == file_.device && st.st_ino == file_.inode;
}

// 0 or errno. Once: mappings are told by their file.
int Share::make_file() {
    if (file_size_is_limited()) return EFBIG;
    if (file_.inode != 0) return file_is_open() ? 0 : EBADF;
    const int fd = move_up(memfd_create("rocemu-share", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0) return errno;
    struct stat st{};
    // Never shorter: nobody gets a SIGBUS.
    if (ftruncate(fd, static_cast<off_t>(kSlots * kSlotBytes)) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 || fstat(fd, &st) != 0) {
        const int error = errno;
        close(fd);
        return error;
    }
    file_ = {fd, st.st_dev, st.st_ino};
    return 0;
}

// What of [touched) is of our file or might be converted; how many mappings the process has.
size_t Share::scan(Range touched, std::vector<Segment>& out) const {
    size_t mappings = 0;
    MapsReader maps;
    for (Vma vma; maps.next(vma); ++mappings) {
        const uint64_t first = std::max(vma.start, touched.start), last = std::min(vma.end, touched.end);
        if (first >= last) continue;
        const bool shared = vma.shared && vma.is_of(file_.device, file_.inode);
        if (!shared && !is_plain(vma)) continue;
        out.push_back({{first, last, vma.offset + (first - vma.start), vma.protection()}, shared});
    }
    return mappings;
}

void Share::take_out_registered(std::vector<Range>& ranges, Range of) const {
    const uint64_t from = of.start > longest_ ? of.start - longest_ : 0;
    for (auto it = live_.lower_bound(from); it != live_.end() && it->first < of.end; ++it)
        subtract(ranges, it->second.touched);
}

// 0 if all of the pages inside are shared then, else why some are not. `segments` tells of what became shared.
int Share::convert(Range inside, bool writable, std::vector<Segment>& segments) {
    std::vector<Range> missing{inside}, ranges;
    for (const Segment& segment : segments) {
        const Range range{std::max(segment.piece.start, inside.start), std::min(segment.piece.end, inside.end)};
        if (range.start >= range.end) continue;
        if (segment.shared)
            subtract(missing, range);
        else if (!writable || (segment.piece.protection & PROT_WRITE) != 0)
            ranges.push_back(range);
    }
    if (missing.empty()) return 0;
    take_out_registered(ranges, inside);
    Range stack{};
    own_stack(stack.start, stack.end);
    subtract(ranges, stack);
    if (!ranges.empty()) {
        MapsReader flags(MapsReader::Detail::Flags);
        if (!flags.ok()) return errno;
        for (Vma vma; flags.next(vma) && vma.start < inside.end;)
            if (!vma.has_only(kPlain)) subtract(ranges, {vma.start, vma.end});
    }
    if (ranges.empty()) return EOPNOTSUPP;
    const uint64_t bytes = inside.end - inside.start;
    if (bytes > kMostSharedBytes || bytes > physical_memory()) return ENOMEM;
    if (const int error = WriteBarrier::available()) return error;
    if (!guard::install()) return EPERM;
    if (const int error = make_file()) return error;
    if (free_slots_.empty() && next_slot_ == kSlots) return ENOSPC;
    uint32_t slot = next_slot_;
    if (free_slots_.empty()) {
        ++next_slot_;
    } else {
        slot = free_slots_.back();
        free_slots_.pop_back();
    }
    int error = 0;
    std::vector<Segment> made;
    for (const Range& range : ranges) {
        const auto in = std::find_if(segments.begin(), segments.end(), [&](const Segment& s) {
            return s.piece.start <= range.start && range.start < s.piece.end;
        });
        Piece piece{range.start, range.end, slot * kSlotBytes + (range.start - inside.start), in->piece.protection};
        error = make_shared(file_, piece);
        if (piece.bytes() != 0) {
            made.push_back({piece, true});
            subtract(missing, {piece.start, piece.end});
        }
        if (error != 0) break;
    }
    if (made.empty()) sweep(slot);  // gives it back
    std::erase_if(segments, [](const Segment& s) { return !s.shared; });
    segments.insert(segments.end(), made.begin(), made.end());
    std::sort(segments.begin(), segments.end(), [](const Segment& a, const Segment& b) { return a.piece.start < b.piece.start; });
    return error != 0 || missing.empty() ? error : EOPNOTSUPP;
}

}  // namespace rocemu::provider
