// SPDX-License-Identifier: BSD-3-Clause
// Records of an event socket (completion channel, asynchronous events). Waiting is peeking, as the application has set the
// descriptor (O_NONBLOCK, signals); a record is taken under a lock without waiting, so that what was seen at the front is
// what is taken, whichever threads read the same descriptor. See recv(2), MSG_PEEK.
#pragma once

#include <cerrno>

#include <sys/socket.h>
#include <sys/types.h>

#include "provider/mutex.h"
#include "provider/no_cancel.h"

namespace rocemu::provider {

enum class NextEvent { Taken, End, Failed };  // Failed: errno

// Takes records from the front as long as they are not `alive`. The lock of the socket's records is held.
template <typename Record, typename Alive>
void drop_dead_records(int fd, Alive alive) {
    NoCancel no_cancel;
    Record record;
    while (recv(fd, &record, sizeof record, MSG_PEEK | MSG_DONTWAIT) == sizeof record && !alive(record))
        if (recv(fd, &record, sizeof record, MSG_DONTWAIT) < 0) return;
}

// Waits for a record and takes it; `use` and `alive` are called under `lock`. A record that is of no `use` is skipped, and
// those behind the one that was taken are dropped unless `alive`.
template <typename Record, typename Use, typename Alive>
NextEvent next_event(int fd, Mutex& lock, Use use, Alive alive) {
    for (;;) {
        Record record;
        const ssize_t n = recv(fd, &record, sizeof record, MSG_PEEK);
        if (n < 0 && errno != ECONNRESET) return NextEvent::Failed;
        if (n <= 0) return NextEvent::End;
        NoCancel no_cancel;
        Guard guard(lock);
        // Another thread may have been faster.
        if (recv(fd, &record, sizeof record, MSG_DONTWAIT) != sizeof record || !use(record)) continue;
        drop_dead_records<Record>(fd, alive);
        return NextEvent::Taken;
    }
}

}  // namespace rocemu::provider
