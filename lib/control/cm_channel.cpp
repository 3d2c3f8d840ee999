// SPDX-License-Identifier: BSD-3-Clause
// CmChannel: see cm_objects.h.
#include <sys/socket.h>

#include "control/cm_objects.h"

namespace rocemu::control {

CmChannel::CmChannel(EventLoop& loop, UniqueFd fd, std::function<void()> on_close) : loop_(loop), fd_(std::move(fd)) {
    // No event is asked for: only the hang-up, which is always told, when the application's last copy is closed.
    loop_.add(fd_.get(), 0, [on_close = std::move(on_close)](uint32_t) { on_close(); });
}

CmChannel::~CmChannel() {
    loop_.remove(fd_.get());
}

void CmChannel::announce() {
    if (announced_ || events_.empty()) return;
    const char record = 1;
    // A socket that has no room for one byte was filled by the application itself.
    announced_ = ::send(fd_.get(), &record, sizeof record, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof record;
}

void CmChannel::push(CmPendingEvent event) {
    events_.push_back(std::move(event));
    announce();
}

std::optional<CmPendingEvent> CmChannel::pop() {
    announced_ = false;
    std::optional<CmPendingEvent> event;
    if (!events_.empty()) {
        event = std::move(events_.front());
        events_.pop_front();
    }
    announce();
    return event;
}

}  // namespace rocemu::control
