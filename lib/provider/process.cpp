// SPDX-License-Identifier: BSD-3-Clause
// See process.h.
#include "provider/process.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <pthread.h>

#include "abi/socket_path.h"
#include "provider/cm_files.h"
#include "provider/no_cancel.h"
#include "provider/share.h"

namespace rocemu::provider {

void list_devices_of(Session& session);  // device_list.cpp

namespace {

Mutex lock;
Session* session = nullptr;  // the last one, with those before it behind it
bool fork_handler_set = false;
bool told = false;

void parent_before_fork() { share().before_fork(); }
void parent_after_fork() { share().in_parent(); }

void child_after_fork() {
    share().in_child();
    lock.forget();
    forget_cm_files();
    forget_device_list();
    forget_contexts();
    forget_device_memory();
    for (; session != nullptr; session = session->before) session->forget();
}

// Silence where nothing listens (a program may be attached and yet have no daemon); a word when something does.
void tell_once(int error) {
    if (told || error == ENOENT || error == ECONNREFUSED) return;
    told = true;
    std::fprintf(stderr, "rocemu: no devices from %s: %s\n", abi::default_socket_path().c_str(),
                 error == EPROTONOSUPPORT ? "the daemon has another version" : std::strerror(error));
}

}  // namespace

Session* current_session() {
    NoCancel no_cancel;
    Guard guard(lock);
    if (session != nullptr) session->check_daemon();
    if (session != nullptr && session->alive()) return session;
    if (!fork_handler_set) {
        pthread_atfork(parent_before_fork, parent_after_fork, child_after_fork);
        fork_handler_set = true;
    }
    int error = 0;
    Session* fresh = Session::open(&error);
    if (fresh == nullptr) {
        tell_once(error);
        return nullptr;
    }
    fresh->before = session;
    session = fresh;
    list_devices_of(*session);
    return session;
}

}  // namespace rocemu::provider
