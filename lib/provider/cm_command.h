// SPDX-License-Identifier: BSD-3-Clause
// CmCommand: one command written to the rdma_cm device, its structure already copied from the program, and where its
// answer goes. Read <rdma/rdma_user_cm.h>. Structures grew over the years: a shorter command has zeros at its end, a
// reply is clipped.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "guard/fault_guard.h"
#include "provider/session.h"

namespace rocemu::provider {

struct CmCommand {
    int fd;
    Session& session;
    uint32_t channel;
    const std::byte* in;
    size_t in_size, out_size;

    // The command's structure; false if it is shorter than the first `required` bytes of it.
    template <typename T>
    [[nodiscard]] bool read(T& out, size_t required = sizeof(T)) const {
        if (in_size < required) return false;
        std::memset(static_cast<void*>(&out), 0, sizeof out);
        std::memcpy(static_cast<void*>(&out), in, std::min(in_size, sizeof out));
        return true;
    }
    template <typename T>
    int answer(uint64_t address, const T& value, size_t required = sizeof(T), size_t bytes = sizeof(T)) const {
        if (out_size < required || address == 0) return ENOSPC;
        return guard::copy(reinterpret_cast<void*>(address), &value, std::min(out_size, bytes)) ? 0 : EFAULT;
    }
    template <typename Request>
    int call(const Request& request) const {
        typename MessageTraits<Request>::Reply reply;
        return session.call(request, reply);
    }
};

}  // namespace rocemu::provider
