// SPDX-License-Identifier: BSD-3-Clause
// Share: the memory of this process that registrations made shared (payload = "share"), so that the daemon can map it:
// which pages, the file behind them, and how long. One for each process. Read docs/adr/0013-share.md.
//
// Rules: only whole pages inside a region become shared, and none that another registration reaches by its address. A page
// stays shared until the last registration that lies in it ends. What is where is read in /proc/self/maps each time: the
// program may have moved or replaced it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "provider/convert.h"
#include "provider/mutex.h"

namespace rocemu::provider {

// A piece of memory, and where it lies in the file.
struct SharedPart {
    uint64_t va = 0, bytes = 0;
    uint64_t offset = 0;
    bool operator==(const SharedPart&) const = default;
};

class Share {
  public:
    struct Registration {
        uint64_t id = 0;    // for remove(); 0: nothing to be removed
        SharedPart mapped;  // what the daemon may map; no bytes: nothing
        ConversionFile file;
        int error = 0;  // why some of the whole pages are private; EOPNOTSUPP: memory that is never converted
    };
    // Before the daemon learns of the registration. `convert` false: only what is shared already. `writable`: nothing that
    // the program may not write itself.
    Registration add(uint64_t va, uint64_t length, bool convert, bool writable);
    // The daemon knows it no more.
    void remove(uint64_t id);

    // pthread_atfork(3). The child gets copies of its own of what is shared, and the parent waits until it has them.
    void before_fork();
    void in_parent();
    void in_child();

  private:
    struct Range {
        uint64_t start, end;
    };
    struct Segment {
        Piece piece;
        bool shared;  // of our file; else private anonymous
    };
    struct Live {
        Range touched;  // whole pages, also those it has only a part of
        std::vector<SharedPart> parts;
    };
    using ByAddress = std::multimap<uint64_t, Live>;

    static void subtract(std::vector<Range>& from, Range what);
    [[nodiscard]] size_t scan(Range touched, std::vector<Segment>& out) const;
    void take_out_registered(std::vector<Range>& ranges, Range of) const;
    int convert(Range inside, bool writable, std::vector<Segment>& segments);
    int make_file();
    [[nodiscard]] bool file_is_open() const;
    [[nodiscard]] std::vector<Piece> mappings_of(const std::vector<Range>& in_file, bool& all) const;
    void sweep(uint32_t slot);
    void copy_mappings() const;

    Mutex lock_;
    ConversionFile file_;
    ByAddress live_;  // by the first page
    std::unordered_map<uint64_t, ByAddress::iterator> by_id_;
    uint64_t longest_ = 0, next_id_ = 1;
    // Parts of the file. What one registration converts lies in one slot, far from all others: what a program appends with
    // mremap(2) is in none of them. A part is in its slot once for each registration.
    std::map<uint32_t, std::vector<SharedPart>> slots_;
    std::vector<uint32_t> free_slots_;
    uint32_t next_slot_ = 0;
    std::set<uint32_t> unfinished_;  // slots in which something could not be made private yet
    int fork_pipe_[2] = {-1, -1};
};

Share& share();

}  // namespace rocemu::provider
