// SPDX-License-Identifier: BSD-3-Clause
// XrcDomain: an XRC domain and its target QPs. It belongs to no process: programs open it, by a file or only for
// themselves, and hold handles of its QPs. A target lives as long as any program has a handle of it, a domain as long as
// any has it open. On its shard it is a session without a process. Read IBTA volume 1, annex A14, and the man pages
// ibv_open_xrcd and ibv_open_qp.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "abi/session_page.h"
#include "control/id_pool.h"
#include "control/unique_fd.h"

namespace rocemu::control {

struct XrcHandle {
    uint32_t session = 0;
    uint32_t xrcd = 0;     // the session's handle of the domain
    uint32_t context = 0;  // of the session
    uint64_t cookie = 0;   // the program's ibv_qp pointer: names the handle, and goes into its events
};

struct XrcTarget {
    uint32_t slot = 0;
    std::vector<XrcHandle> handles;
};

struct XrcDomain {
    [[nodiscard]] bool is_of(uint32_t on_device, const struct stat& of) const {
        return file && device == on_device && inode.st_dev == of.st_dev && inode.st_ino == of.st_ino;
    }

    uint32_t id = 0;  // its session number on the shard
    uint32_t shard = 0;
    uint32_t device = 0;
    UniqueFd file;  // kept open: the inode number stays its own
    struct stat inode {};
    uint32_t opens = 0;    // handles of the domain; 0: nobody finds it any more
    uint32_t objects = 0;  // SRQs and targets that its shard has, those being destroyed included
    IdPool slots{0, abi::kMaxQpsPerSession};
    std::unordered_map<uint32_t, XrcTarget> targets;  // by QPN
};

// A session's handle of a domain.
struct XrcdObject {
    uint32_t context = 0;
    uint32_t users = 0;  // SRQs and handles of QPs
    std::shared_ptr<XrcDomain> domain;
};

}  // namespace rocemu::control
