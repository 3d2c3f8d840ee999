// SPDX-License-Identifier: BSD-3-Clause
// See device.h.
#include "device.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "channel.h"

namespace interop {

Device::Device(const std::string& name) {
    int n = 0;
    ibv_device** list = ibv_get_device_list(&n);
    for (int i = 0; list != nullptr && i < n; ++i)
        if (name == ibv_get_device_name(list[i])) context = ibv_open_device(list[i]);
    if (list != nullptr) ibv_free_device_list(list);
    if (context == nullptr) throw Failure("no device " + name);
    if (ibv_query_port(context, 1, &port) != 0) throw Failure("no port 1");
    fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
}

Device::~Device() {
    if (context != nullptr) ibv_close_device(context);
}

int Device::gid_index(int ip) const {
    static constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        ibv_gid_entry entry{};
        if (ibv_query_gid_ex(context, 1, static_cast<uint32_t>(i), &entry, 0) != 0) continue;
        if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
        const bool mapped = std::memcmp(entry.gid.raw, kMapped.data(), kMapped.size()) == 0;
        const bool link_local = entry.gid.raw[0] == 0xfe && entry.gid.raw[1] == 0x80;
        if (ip == 4 ? mapped : !mapped && !link_local) return i;
    }
    return -1;
}

std::vector<std::string> Device::take_events() {
    std::vector<std::string> names;
    for (;;) {
        pollfd p{context->async_fd, POLLIN, 0};
        ibv_async_event event{};
        if (poll(&p, 1, 0) <= 0 || ibv_get_async_event(context, &event) != 0) return names;
        switch (event.event_type) {
            case IBV_EVENT_COMM_EST:
                break;
            case IBV_EVENT_QP_ACCESS_ERR:
                names.emplace_back("access");
                break;
            case IBV_EVENT_QP_REQ_ERR:
                names.emplace_back("request");
                break;
            case IBV_EVENT_QP_FATAL:
                names.emplace_back("fatal");
                break;
            case IBV_EVENT_QP_LAST_WQE_REACHED:
                names.emplace_back("last-wqe");
                break;
            default:
                names.emplace_back(ibv_event_type_str(event.event_type));
        }
        ibv_ack_async_event(&event);
    }
}

double seconds() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace interop
