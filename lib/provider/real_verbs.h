// SPDX-License-Identifier: BSD-3-Clause
// RealVerbs: the real libibverbs beneath us, found at first use. Devices of the host stay what they are: each exported
// function of the provider passes calls on their objects on.
//
// RTLD_NEXT would miss a libibverbs that came by a local dlopen (UCX, pyverbs), so the library is opened by name.
#pragma once

#include "provider/verbs.h"

extern "C" int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned index, int* type);

namespace rocemu::provider {

struct RealVerbs {
#define VERB(name, version) decltype(&::name) name = nullptr;
#include "provider/real_verbs.def"
#undef VERB
};

// Members are null where this version of the library has no such function, or where there is no library.
const RealVerbs& real();

}  // namespace rocemu::provider
