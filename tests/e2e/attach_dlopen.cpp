// SPDX-License-Identifier: BSD-3-Clause
// attach_dlopen [deepbind]: a program that is not linked with libibverbs, opens it by hand and asks for its symbols by
// handle and version, as NCCL-like programs do. Prints the names of the devices it sees; exit code 0 if there are any.
#include <cstdio>
#include <cstring>

#include <dlfcn.h>

struct ibv_device;

int main(int argc, char** argv) {
    const bool deepbind = argc > 1 && std::strcmp(argv[1], "deepbind") == 0;
    void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL | (deepbind ? RTLD_DEEPBIND : 0));
    if (library == nullptr) {
        std::printf("dlopen: %s\n", dlerror());
        return 1;
    }
    const auto list_devices =
        reinterpret_cast<ibv_device** (*)(int*)>(dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1"));
    const auto free_devices = reinterpret_cast<void (*)(ibv_device**)>(dlvsym(library, "ibv_free_device_list", "IBVERBS_1.1"));
    // These two are the real library's, and must be found all the same.
    const auto name_of = reinterpret_cast<const char* (*)(ibv_device*)>(dlvsym(library, "ibv_get_device_name", "IBVERBS_1.1"));
    const auto status_text = reinterpret_cast<const char* (*)(int)>(dlsym(library, "ibv_wc_status_str"));
    if (list_devices == nullptr || free_devices == nullptr || name_of == nullptr || status_text == nullptr) {
        std::printf("a symbol is missing: %s\n", dlerror());
        return 1;
    }
    int count = 0;
    ibv_device** list = list_devices(&count);
    for (int i = 0; list != nullptr && i < count; ++i) std::printf("%s\n", name_of(list[i]));
    if (list != nullptr) free_devices(list);
    return count > 0 && std::strcmp(status_text(0), "success") == 0 ? 0 : 1;
}
