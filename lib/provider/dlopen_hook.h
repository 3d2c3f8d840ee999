// SPDX-License-Identifier: BSD-3-Clause
// dlopen as the provider shows it to the application, and the real one for itself. Programs that load libibverbs by hand
// and ask for its symbols by handle (dlopen, dlvsym) would miss a preloaded library: they get a handle that leads to the
// provider first and to libibverbs behind it.
#pragma once

namespace rocemu::provider {

void* real_dlopen(const char* file, int mode);

}  // namespace rocemu::provider
