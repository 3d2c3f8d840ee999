// SPDX-License-Identifier: BSD-3-Clause
// `rocemu run --namespace`: a mount namespace in which /sys/class/infiniband*, /sys/class/misc/rdma_cm and
// /dev/infiniband are those of the daemon's view, for programs that reach these paths by other ways than libc's
// functions. Read docs/programs.md.
#pragma once

#include <string>

namespace rocemu::cli {

// The calling process enters it. Empty, or why not: then nothing should be started.
[[nodiscard]] std::string enter_view_namespace(const std::string& view);

}  // namespace rocemu::cli
