// SPDX-License-Identifier: BSD-3-Clause
// run_schedule: plays a schedule in virtual time and says what went wrong first, or nothing.
#pragma once

#include <string>

#include "tests/model/schedule.h"

namespace rocemu::model {

struct RunResult {
    std::string failure;  // empty: every invariant held
    std::string trace;    // each frame, if asked for
    uint64_t steps = 0, frames = 0;
};

[[nodiscard]] RunResult run_schedule(const Schedule& schedule, bool trace = false);

}  // namespace rocemu::model
