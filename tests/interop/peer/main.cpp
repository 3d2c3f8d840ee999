// SPDX-License-Identifier: BSD-3-Clause
// interop_peer: an ordinary verbs program (libibverbs only) that plays cases of the interoperation matrix between two
// devices. The same program runs attached to rocemud and inside the Linux guest.
//   interop_peer serve DEVICE PORT LANES
//   interop_peer drive DEVICE ADDRESS PORT LANES CASES RESULTS [--wire SOCKET] [--budget SECONDS] [--build ID]
//                      [--append yes]
//   interop_peer soak DEVICE ADDRESS PORT CONNECTIONS SECONDS LOSS_PERCENT [WIRE_SOCKET]
// Exit code of drive: 0 all is well, 1 cases failed, 2 the run itself failed.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver.h"
#include "soak.h"

using namespace interop;

namespace {

int usage() {
    std::fputs(
        "interop_peer serve DEVICE PORT LANES\n"
        "interop_peer drive DEVICE ADDRESS PORT LANES CASES RESULTS [--wire SOCKET] [--budget SECONDS] [--build ID] "
        "[--append yes]\n"
        "interop_peer soak DEVICE ADDRESS PORT CONNECTIONS SECONDS LOSS_PERCENT [WIRE_SOCKET]\n",
        stderr);
    return 2;
}

uint16_t port_of(const char* text) {
    return static_cast<uint16_t>(std::atoi(text));
}

int run(int argc, char** argv) {
    if (argc == 5 && std::strcmp(argv[1], "serve") == 0)
        return serve(argv[2], port_of(argv[3]), static_cast<unsigned>(std::atoi(argv[4])));
    if (argc >= 8 && std::strcmp(argv[1], "drive") == 0) {
        DriverOptions options;
        options.device = argv[2];
        options.address = argv[3];
        options.port = port_of(argv[4]);
        options.lanes = static_cast<unsigned>(std::atoi(argv[5]));
        options.cases = argv[6];
        options.results = argv[7];
        for (int i = 8; i < argc; i += 2) {
            if (i + 1 == argc) return usage();
            if (std::strcmp(argv[i], "--wire") == 0)
                options.wire = argv[i + 1];
            else if (std::strcmp(argv[i], "--budget") == 0)
                options.budget = std::atof(argv[i + 1]);
            else if (std::strcmp(argv[i], "--build") == 0)
                options.build = argv[i + 1];
            else if (std::strcmp(argv[i], "--append") == 0)
                options.append = std::strcmp(argv[i + 1], "yes") == 0;
            else
                return usage();
        }
        return drive(options);
    }
    if ((argc == 8 || argc == 9) && std::strcmp(argv[1], "soak") == 0) {
        SoakOptions options;
        options.connections = static_cast<uint32_t>(std::atoi(argv[5]));
        options.seconds = static_cast<uint32_t>(std::atoi(argv[6]));
        options.loss_percent = static_cast<uint32_t>(std::atoi(argv[7]));
        if (argc == 9) options.wire = argv[8];
        Device device(argv[2]);
        Channel channel = Channel::connect(argv[3], port_of(argv[4]));
        soak_drive(channel, device, options);
        return 0;
    }
    return usage();
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const Failure& e) {
        std::fprintf(stderr, "interop_peer: %s\n", e.what());
        return 2;
    }
}
