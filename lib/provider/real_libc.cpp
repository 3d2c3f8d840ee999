// SPDX-License-Identifier: BSD-3-Clause
// See real_libc.h.
#include "provider/real_libc.h"

#include <dlfcn.h>
#include <pthread.h>

namespace rocemu::provider {
namespace {

RealLibc table;
pthread_once_t once = PTHREAD_ONCE_INIT;

void load() {
#define LIBC(name) table.name = reinterpret_cast<decltype(table.name)>(dlsym(RTLD_NEXT, #name));
#include "provider/real_libc.def"
#undef LIBC
}

__attribute__((constructor)) void load_early() {
    pthread_once(&once, load);
}

}  // namespace

// Other libraries' constructors may call us before ours has run.
const RealLibc& libc() {
    if (table.realpath == nullptr) [[unlikely]]  // the last one to be found
        pthread_once(&once, load);
    return table;
}

}  // namespace rocemu::provider
