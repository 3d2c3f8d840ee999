// SPDX-License-Identifier: BSD-3-Clause
// rocemu icrc-check: the ICRC of every RoCE frame of a capture, computed anew. Read IBTA volume 1, 7.8.1, and lib/wire/icrc.h.
#include <cinttypes>
#include <cstdio>
#include <memory>

#include "capture_file.h"
#include "commands.h"
#include "wire/icrc.h"
#include "wire/parse.h"

namespace rocemu::cli {
namespace {

struct Counts {
    uint64_t frames = 0, right = 0, wrong = 0, malformed = 0, cut = 0, other = 0;
};

void count(const CapturedFrame& frame, bool verbose, Counts& c) {
    ++c.frames;
    wire::PacketView packet;
    if (!frame.ethernet) {
        ++c.other;
        return;
    }
    const wire::ParseResult result = wire::parse_frame(frame.bytes, packet);
    if (result.kind == wire::ParseResult::Kind::NotRoce) {
        ++c.other;
    } else if (!frame.whole) {
        ++c.cut;
    } else if (!result.ok()) {
        ++c.malformed;
        if (verbose) std::printf("frame %" PRIu64 ": %s\n", c.frames, wire::name_of(result.reason));
    } else if (wire::icrc_matches(packet)) {
        ++c.right;
    } else {
        ++c.wrong;
        if (verbose)
            std::printf("frame %" PRIu64 ": ICRC %08x, computed %08x\n", c.frames, packet.icrc,
                        wire::icrc_of_packet(packet.l3, packet.network));
    }
}

int check(const std::string& path, bool quiet) {
    CaptureFile file;
    if (const std::string wrong = file.open(path); !wrong.empty()) return complain(kExitNoDaemon, path + ": " + wrong);
    Counts c;
    CapturedFrame frame;
    std::string error;
    while (file.next(frame, error)) count(frame, !quiet, c);
    std::printf("%s: %" PRIu64 " frames: ICRC right %" PRIu64 ", wrong %" PRIu64 ", malformed %" PRIu64
                ", cut by the snap length %" PRIu64 ", not RoCE %" PRIu64 "\n",
                path.c_str(), c.frames, c.right, c.wrong, c.malformed, c.cut, c.other);
    if (!error.empty()) return complain(kExitFailed, path + ": " + error);
    return c.wrong == 0 && c.malformed == 0 && c.right > 0 ? kExitOk : kExitFailed;
}

}  // namespace

void add_icrc_check(CLI::App& app, Action& chosen) {
    CLI::App* command = app.add_subcommand("icrc-check", "Verify the ICRC of every RoCE frame in a pcap or pcapng file");
    auto path = std::make_shared<std::string>();
    auto quiet = std::make_shared<bool>(false);
    command->add_option("FILE", *path, "Capture")->required();
    command->add_flag("-q,--quiet", *quiet, "Only the sums");
    command->footer("Exit code 0: at least one frame, all of them right; 1: not so; 2: the file cannot be read.");
    command->callback([path, quiet, &chosen] { chosen = [path, quiet] { return check(*path, *quiet); }; });
}

}  // namespace rocemu::cli
