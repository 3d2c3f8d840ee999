// SPDX-License-Identifier: BSD-3-Clause
// The public verbs header, made usable for a library that implements it: names that <infiniband/verbs.h> replaces by
// macros are functions again here. Every file of the provider includes this one instead of the system's.
// Read the manual pages ibv_*(3) for what each verb promises.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

// Symbols the application sees; provider.map gives them their versions. Everything else stays hidden.
#define ROCEMU_EXPORT extern "C" __attribute__((visibility("default")))

// Private in libibverbs and so in no header, but called by ibv_devinfo and pyverbs.
enum RocemuGidTypeSysfs : int { kGidTypeSysfsIbRoceV1 = 0, kGidTypeSysfsRoceV2 = 1 };

namespace rocemu::provider {

// libmlx5 and libefa look behind the structures of verbs.h for their own (to find out that a device is not theirs):
// zeros must lie there.
inline constexpr size_t kForeignPad = 512;

// For functions that report by return value what others report by errno.
template <typename T>
T* fail_pointer(int error) {
    errno = error;
    return nullptr;
}
inline int fail_minus_one(int error) {
    errno = error;
    return -1;
}

}  // namespace rocemu::provider
