// SPDX-License-Identifier: BSD-3-Clause
// Mutex: for the control path. It never throws (std::mutex may) and can be made new in a forked child, where the thread
// that held it does not exist.
#pragma once

#include <pthread.h>

#include "provider/spinlock.h"

namespace rocemu::provider {

class Mutex {
  public:
    void lock() { pthread_mutex_lock(&mutex_); }
    void unlock() { pthread_mutex_unlock(&mutex_); }
    void forget() { mutex_ = PTHREAD_MUTEX_INITIALIZER; }  // child of a fork only

  private:
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

}  // namespace rocemu::provider
