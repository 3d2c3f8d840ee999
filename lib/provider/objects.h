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
    abi::QueryDeviceReply attributes;  // as they were when it was opened
    std::atomic<bool> fatal_told;  // IBV_EVENT_DEVICE_FATAL was returned once
    Context* next;                 // among the open ones (context.cpp)

    [[nodiscard]] ibv_context* base() { return &verbs.context; }
    static Context* of(ibv_context* context) {
        return reinterpret_cast<Context*>(reinterpret_cast<std::byte*>(context) - offsetof(verbs_context, context));
    }
};

struct Pd {
    ibv_pd base;
    std::byte foreign_pad[kForeignPad];
    std::atomic<uint32_t> domains;        // parent domains made from it
    Pd* parent;                           // of a parent domain: the PD it stands for
    std::atomic<uint32_t>* td_users;      // of its thread domain
    [[nodiscard]] Context& context() const { return *Context::of(base.context); }
    static Pd* of(ibv_pd* pd) { return reinterpret_cast<Pd*>(pd); }
};

struct Xrcd {
    ibv_xrcd base;
    std::byte foreign_pad[kForeignPad];
    uint32_t handle;
    static Xrcd* of(ibv_xrcd* xrcd) { return reinterpret_cast<Xrcd*>(xrcd); }
};

struct Mr {
    ibv_mr base;
    std::byte foreign_pad[kForeignPad];
    std::atomic<uint32_t>* users;  // counts what lies in the same device memory, or nullptr
    uint64_t share_id;             // of Share, or 0
    unsigned access;
};
// `may_convert`: the memory is the program's own (payload = "share"). nullptr with errno.
Mr* register_memory(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned access, bool may_convert);

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

// Takes away what at the front of the socket of asynchronous events, or of a channel, names no object that lives: as in
// the kernel the events of an object end with it, and the descriptor is readable only if there is something to get.
// objects_lock is held.
void drop_dead_events(Context& context);
void drop_dead_events(Channel& channel);

// Table entries (domains.cpp, device_memory.cpp, memory.cpp, memory_window.cpp, xrc.cpp).
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int close_xrcd(ibv_xrcd* xrcd);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);
int dealloc_parent_domain(Pd* domain);
inline constexpr uint64_t kMaxDmBytes = 1u << 20;  // of one process
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr);
int free_dm(ibv_dm* dm);
ibv_dm* import_dm(ibv_context* context, uint32_t handle);
void unimport_dm(ibv_dm* dm);
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned access);
ibv_mr* alloc_null_mr(ibv_pd* pd);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sges, uint32_t count);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

// A second context of the device that the descriptor of a context of this process stands for; ENOENT: it is none.
ibv_context* import_context(int cmd_fd);

// The tables of every context of ours (context_ops.cpp).
void fill_context_ops(Context& context);

}  // namespace rocemu::provider
