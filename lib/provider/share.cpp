// SPDX-License-Identifier: BSD-3-Clause
// See share.h. Registrations, and the end of them; what is converted is chosen in share_convert.cpp.
#include "provider/share.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/maps_reader.h"
#include "provider/share_slots.h"

namespace rocemu::provider {
namespace {

// Of a shared mapping that can be made private without a loss: as it comes; dc, dd and lo are kept.
constexpr std::string_view kUndone = "rd wr sh mr mw me ms ac sd nr hg nh dc dd lo ";

// The longest piece of [va, va + length) that is one piece of the file.
SharedPart longest_of(const std::vector<SharedPart>& parts, uint64_t va, uint64_t length) {
    SharedPart longest, run;
    for (const SharedPart& part : parts) {
        const uint64_t first = std::max(part.va, va), last = std::min(part.va + part.bytes, va + length);
        if (first >= last) continue;
        const uint64_t offset = part.offset + (first - part.va);
        const bool follows = run.va + run.bytes == first && run.offset + run.bytes == offset;
        run = follows ? SharedPart{run.va, run.bytes + (last - first), run.offset} : SharedPart{first, last - first, offset};
        if (run.bytes > longest.bytes) longest = run;
    }
    return longest;
}

}  // namespace

Share& share() {
    // Never destroyed: threads may register while the program exits.
    static auto* const instance = new Share;
    return *instance;
}

void Share::subtract(std::vector<Range>& from, Range what) {
    std::vector<Range> left;
    for (const Range& range : from) {
        if (what.end <= range.start || what.start >= range.end) {
            left.push_back(range);
            continue;
        }
        if (range.start < what.start) left.push_back({range.start, what.start});
        if (what.end < range.end) left.push_back({what.end, range.end});
    }
    from = std::move(left);
}

Share::Registration Share::add(uint64_t va, uint64_t length, bool convert_it, bool writable) {
    Registration out;
    if (length == 0) return out;
    const uint64_t last = length - 1 > ~va ? ~uint64_t{0} : va + (length - 1);  // on-demand regions may be everything
    // (The last page of all addresses is nobody's.)
    const Range touched{va & ~(kPageBytes - 1), (std::min(last, ~kPageBytes) | (kPageBytes - 1)) + 1};
    const Range inside{(va + kPageBytes - 1) & ~(kPageBytes - 1), (last + 1) & ~(kPageBytes - 1)};
    Guard guard(lock_);
    for (const uint32_t slot : std::set<uint32_t>(unfinished_)) sweep(slot);

    std::vector<Segment> segments;
    const size_t mappings = scan(touched, segments);
    if (convert_it && inside.start >= va && inside.start < inside.end)
        out.error = mappings == 0 ? ENOENT : mappings > kMostMappings ? ENOMEM : convert(inside, writable, segments);

    Live live{touched, {}};
    std::vector<SharedPart> allowed;
    for (const Segment& segment : segments) {
        if (!segment.shared) continue;
        const SharedPart part{segment.piece.start, segment.piece.bytes(), segment.piece.offset};
        live.parts.push_back(part);
        slots_[slot_of(part.offset)].push_back(part);
        if (!writable || (segment.piece.protection & PROT_WRITE) != 0) allowed.push_back(part);
    }
    if (file_is_open()) out.mapped = longest_of(allowed, va, length);
    out.file = file_;
    out.id = next_id_++;
    longest_ = std::max(longest_, touched.end - touched.start);
    by_id_[out.id] = live_.emplace(touched.start, std::move(live));
    return out;
}

void Share::remove(uint64_t id) {
    Guard guard(lock_);
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return;
    const Live live = std::move(found->second->second);
    live_.erase(found->second);
    by_id_.erase(found);
    std::set<uint32_t> idle(unfinished_);
    for (const SharedPart& part : live.parts) {
        auto& in_slot = slots_[slot_of(part.offset)];
        in_slot.erase(std::find(in_slot.begin(), in_slot.end(), part));
        std::vector<Range> alone{{part.offset, part.offset + part.bytes}};
        for (const SharedPart& other : in_slot) subtract(alone, {other.offset, other.offset + other.bytes});
        if (!alone.empty()) idle.insert(slot_of(part.offset));
    }
    for (const uint32_t slot : idle) sweep(slot);
}

// The mappings, wherever they are, of these ranges of the file. `all`: none had to be left out.
std::vector<Piece> Share::mappings_of(const std::vector<Range>& in_file, bool& all) const {
    std::vector<Piece> out;
    MapsReader maps(MapsReader::Detail::Flags);
    all = maps.ok();
    for (Vma vma; maps.next(vma);) {
        if (!vma.shared || !vma.is_of(file_.device, file_.inode)) continue;
        for (const Range& range : in_file) {
            const uint64_t first = std::max(range.start, vma.offset);
            const uint64_t last = std::min(range.end, vma.offset + (vma.end - vma.start));
            if (first >= last) continue;
            if (vma.has_only(kUndone))
                out.push_back({vma.start + (first - vma.offset), vma.start + (last - vma.offset), first, vma.protection(),
                               vma.has_flag("dc"), vma.has_flag("dd"), vma.has_flag("lo")});
            else
                all = false;
        }
    }
    return out;
}

// What no registration lies in becomes private, and takes no memory in the file. Where that fails it is tried again later.
void Share::sweep(uint32_t slot) {
    const std::vector<SharedPart>& parts = slots_[slot];
    std::vector<Range> idle{{slot * kSlotBytes, (slot + 1) * kSlotBytes}};
    for (const SharedPart& part : parts) subtract(idle, {part.offset, part.offset + part.bytes});
    bool all = false;
    for (const Piece& piece : mappings_of(idle, all))
        if (make_private(file_, piece, Writers::Wait) != 0) all = false;
    if (!all) {
        unfinished_.insert(slot);
        return;
    }
    unfinished_.erase(slot);
    // Where the program has closed our descriptor the file goes with its last mapping.
    if (file_is_open())
        for (const Range& range : idle)
            fallocate(file_.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.start),
                      static_cast<off_t>(range.end - range.start));
    if (!parts.empty()) return;
    slots_.erase(slot);
    free_slots_.push_back(slot);
}

}  // namespace rocemu::provider
