// SPDX-License-Identifier: BSD-3-Clause
// Lanes: child processes that take numbers from one pipe, each when it has finished with the one before.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace interop {

class Lanes {
  public:
    // Waits for the lane's next number; false: there is none any more.
    using Next = std::function<bool(uint32_t&)>;

    Lanes();
    ~Lanes();
    Lanes(const Lanes&) = delete;

    // Begins a lane; what `play` returns is the exit code of its process, 2 when it throws Failure.
    void add(const std::function<int(const Next&)>& play);
    // Deals 0 … count-1 and waits for the lanes. Returns the highest exit code.
    int deal(uint32_t count);

  private:
    int read_ = -1, write_ = -1;
    std::vector<pid_t> lanes_;
};

}  // namespace interop
