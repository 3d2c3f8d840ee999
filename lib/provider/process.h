// SPDX-License-Identifier: BSD-3-Clause
// The process's own state: its session and what happens to it at fork. A child forgets its parent's session (it may
// call destroy functions on inherited objects, which then only free memory) and gets one of its own when it asks for
// devices.
#pragma once

#include "provider/session.h"

namespace rocemu::provider {

// The session that new contexts belong to; connects to the daemon if there is none or the last one is dead.
// nullptr: no daemon, or it refused.
Session* current_session();

// Child of a fork only: locks that threads which do not exist here may hold are made new.
void forget_device_list();    // device_list.cpp
void forget_contexts();       // context.cpp
void forget_device_memory();  // device_memory.cpp

}  // namespace rocemu::provider
