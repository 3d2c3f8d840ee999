// SPDX-License-Identifier: BSD-3-Clause
// See driver.h. A line of results: name, verdict (ok, failed, unsupported, not-reached), the requester's outcome, the
// responder's, what is wrong, milliseconds; separated by tabs.
#include "driver.h"

#include <cstdio>
#include <fstream>

#include "run_case.h"
#include "soak.h"
#include "wire_control.h"

namespace interop {

namespace {

constexpr const char* kEnd = "end";

struct Verdict {
    const char* word = "ok";
    std::string wrong;
};

Verdict judge(const Case& c, const Reports& r) {
    if (r.requester.unsupported) return {"unsupported", std::string("requester: ") + r.requester.outcome};
    if (r.responder.unsupported) return {"unsupported", std::string("responder: ") + r.responder.outcome};
    // A request of which not even the first is taken is one that the requester's device does not know.
    if (c.fault == Fault::None && std::string(r.requester.outcome).find("refused=0:") != std::string::npos)
        return {"unsupported", "requester: cannot be posted"};
    std::string wrong = r.requester.wrong;
    if (r.responder.wrong[0] != 0) wrong += (wrong.empty() ? "" : "; ") + std::string(r.responder.wrong);
    const auto compare = [&](const char* who, const std::string& want, const char* got) {
        if (want.empty() || want == got) return;
        wrong += (wrong.empty() ? "" : "; ") + std::string(who) + " should have seen: " + want;
    };
    compare("requester", c.want_requester, r.requester.outcome);
    // Lost messages: the responder's count is open, and that all it says is good was checked by the sides.
    if (!c.may_lose()) compare("responder", c.want_responder, r.responder.outcome);
    return {wrong.empty() ? "ok" : "failed", wrong};
}

}  // namespace

int drive(Channel& channel, Device& device, const DriverOptions& options) {
    std::ifstream in(options.cases);
    if (!in) throw Failure("cannot read " + options.cases);
    std::ofstream out(options.results);
    WireControl wire(options.wire);
    const double start = seconds();
    int failed = 0;
    for (std::string line; std::getline(in, line);) {
        if (line.empty() || line[0] == '#') continue;
        const Case c = parse_case(line);
        const double begin = seconds();
        if (options.budget > 0 && begin > start + options.budget) {
            out << c.name << "\tnot-reached\t\t\t\t0\n";
            continue;
        }
        wire.begin(c.name, c.loss_percent);
        channel.send_text(line);
        const Reports r = run_case(channel, device, c, c.driver_requests);
        const Verdict v = judge(c, r);
        const bool bad = std::string(v.word) == "failed";
        wire.end(bad);
        failed += bad;
        out << c.name << '\t' << v.word << '\t' << r.requester.outcome << '\t' << r.responder.outcome << '\t' << v.wrong
            << '\t' << static_cast<long>((seconds() - begin) * 1000) << std::endl;
    }
    channel.send_text(kEnd);
    return failed;
}

void serve(Channel& channel, Device& device) {
    for (;;) {
        const std::string line = channel.receive_text();
        if (line == kEnd) return;
        if (line.rfind(kSoakWord, 0) == 0) return soak_serve(channel, device, line);
        const Case c = parse_case(line);
        (void)run_case(channel, device, c, !c.driver_requests);
    }
}

}  // namespace interop
