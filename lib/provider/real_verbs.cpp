// SPDX-License-Identifier: BSD-3-Clause
// See real_verbs.h.
#include "provider/real_verbs.h"

#include <dlfcn.h>
#include <pthread.h>

#include "provider/dlopen_hook.h"

namespace rocemu::provider {
namespace {

RealVerbs table;
pthread_once_t once = PTHREAD_ONCE_INIT;

void* find(void* library, const char* name, const char* version) {
    void* symbol = dlvsym(library, name, version);
    // The version node of private functions has another number in each release.
    return symbol != nullptr ? symbol : dlsym(library, name);
}

void load() {
    void* library = real_dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
#define VERB(name, version) table.name = reinterpret_cast<decltype(table.name)>(find(library, #name, version));
#include "provider/real_verbs.def"
#undef VERB
}

}  // namespace

const RealVerbs& real() {
    pthread_once(&once, load);
    return table;
}

}  // namespace rocemu::provider
