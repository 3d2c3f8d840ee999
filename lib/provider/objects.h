// SPDX-License-Identifier: BSD-3-Clause
// The verbs objects of our devices: what applications see comes first (libibverbs' own structures), what is ours behind
// it. An object of an application is ours if its device lies in our pool; see of() below.
#pragma once

#include <atomic>
#include <cstddef>

#include "abi/messages.h"
#include "provider/session.h"
#include "provider/verbs.h"

namespace rocemu::provider {

struct Device {
    ibv_device base;
    std::byte foreign_pad[kForeignPad];
    uint64_t guid;   // host order
    uint32_t index;  // the daemon's number of it
    bool listed;     // the present session has it
};

inline constexpr uint32_t kMaxDevices = 64;
extern Device device_pool[kMaxDevices];

inline bool ours(const ibv_device* device) {
    const auto* d = reinterpret_cast<const Device*>(device);
    return d >= device_pool && d < device_pool + kMaxDevices;
}
inline bool ours(const ibv_context* context) { return ours(context->device); }

struct Context {
    verbs_context verbs;  // ends with the ibv_context that applications hold
    std::byte foreign_pad[kForeignPad];
    Session* session;
    Device* device;
    uint32_t id;
    uint32_t max_inline, max_sge, max_qp_wr, max_cqe;
    std::atomic<bool> fatal_told;  // IBV_EVENT_DEVICE_FATAL was returned once

    [[nodiscard]] ibv_context* base() { return &verbs.context; }
    static Context* of(ibv_context* context) {
        return reinterpret_cast<Context*>(reinterpret_cast<std::byte*>(context) - offsetof(verbs_context, context));
    }
};

struct Pd {
    ibv_pd base;
    std::byte foreign_pad[kForeignPad];
    [[nodiscard]] Context& context() const { return *Context::of(base.context); }
    static Pd* of(ibv_pd* pd) { return reinterpret_cast<Pd*>(pd); }
};

struct Mr {
    ibv_mr base;
    std::byte foreign_pad[kForeignPad];
};

struct Mw {
    ibv_mw base;
    std::byte foreign_pad[kForeignPad];
};

struct Channel {
    ibv_comp_channel base;  // refcnt: CQs that use it, under the context's mutex
    uint32_t id;
    [[nodiscard]] Context& context() const { return *Context::of(base.context); }
    static Channel* of(ibv_comp_channel* channel) { return reinterpret_cast<Channel*>(channel); }
};

// Table entries (memory_window.cpp).
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

// The tables of every context of ours (context_ops.cpp).
void fill_context_ops(Context& context);

}  // namespace rocemu::provider
