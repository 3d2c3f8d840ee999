// SPDX-License-Identifier: BSD-3-Clause
// NoCancel: a thread that is cancelled (pthread_cancel(3)) does not end in here, with a lock held or in the middle of an
// exchange: system calls that would be a place for it are none.
#pragma once

#include <pthread.h>

namespace rocemu::provider {

class NoCancel {
  public:
    NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
    NoCancel(const NoCancel&) = delete;
    NoCancel& operator=(const NoCancel&) = delete;

  private:
    int before_ = 0;
};

}  // namespace rocemu::provider
