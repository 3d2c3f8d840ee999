// SPDX-License-Identifier: BSD-3-Clause
// See real_libc.h.
#include "provider/real_libc.h"

#include <dlfcn.h>
#include <pthread.h>

namespace rocemu::provider {
namespace {

RealLibc table;
pthread_once_t once = PTHREAD_ONCE_INIT;

template <typename Function>
void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void load() {
    find(table.write, "write");
    find(table.open, "open");
    find(table.openat, "openat");
    find(table.fstat, "fstat");
}

__attribute__((constructor)) void load_early() {
    pthread_once(&once, load);
}

}  // namespace

// Other libraries' constructors may call us before ours has run.
const RealLibc& libc() {
    if (table.fstat == nullptr) [[unlikely]]
        pthread_once(&once, load);
    return table;
}

}  // namespace rocemu::provider
