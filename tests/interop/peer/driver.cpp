// SPDX-License-Identifier: BSD-3-Clause
// See driver.h. A line of results: name, verdict (ok, failed, unsupported, not-reached), the requester's outcome, the
// responder's, what is wrong, milliseconds, build of rocemu; separated by tabs.
#include "driver.h"

#include <cstdio>
#include <fstream>
#include <memory>

#include "lanes.h"
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

// One lane of the driver.
class Player {
  public:
    Player(const DriverOptions& options, double start)
        : options_(options),
          start_(start),
          device_(options.device),
          channel_(Channel::connect(options.address, options.port)),
          wire_(options.wire),
          out_(options.results, std::ios::app) {}
    ~Player() { channel_.send_text(kEnd); }

    // Returns whether the case is well.
    bool play(const std::string& line) {
        const Case c = parse_case(line);
        const double begin = seconds();
        if (options_.budget > 0 && begin > start_ + options_.budget) {
            write(c.name + "\tnot-reached\t\t\t\t0");
            return true;
        }
        channel_.send_text(line);
        const Reports r = run_case(channel_, device_, c, c.driver_requests, &wire_);
        const Verdict v = judge(c, r);
        const bool bad = std::string(v.word) == "failed";
        wire_.end(bad);
        write(c.name + '\t' + v.word + '\t' + r.requester.outcome + '\t' + r.responder.outcome + '\t' + v.wrong + '\t' +
              std::to_string(static_cast<long>((seconds() - begin) * 1000)));
        return !bad;
    }

  private:
    // At once: lanes share the file.
    void write(const std::string& line) { out_ << line + '\t' + options_.build + '\n' << std::flush; }

    const DriverOptions& options_;
    double start_;
    Device device_;
    Channel channel_;
    WireControl wire_;
    std::ofstream out_;
};

void serve_lane(Channel& channel, Device& device) {
    for (;;) {
        const std::string line = channel.receive_text();
        if (line == kEnd) return;
        if (line.rfind(kSoakWord, 0) == 0) return soak_serve(channel, device, line);
        const Case c = parse_case(line);
        (void)run_case(channel, device, c, !c.driver_requests, nullptr);
    }
}

}  // namespace

int drive(const DriverOptions& options) {
    std::ifstream in(options.cases);
    if (!in) throw Failure("cannot read " + options.cases);
    std::vector<std::string> cases;
    for (std::string line; std::getline(in, line);)
        if (!line.empty() && line[0] != '#') cases.push_back(line);
    if (!options.append) std::ofstream(options.results, std::ios::trunc);
    const double start = seconds();
    Lanes lanes;
    for (unsigned i = 0; i < options.lanes; ++i)
        lanes.add([&](Lanes::Next next) {
            Player player(options, start);
            bool well = true;
            for (uint32_t at = 0; next(at);) well &= player.play(cases[at]);
            return well ? 0 : 1;
        });
    return lanes.deal(static_cast<uint32_t>(cases.size()));
}

int serve(const std::string& device_name, uint16_t port, unsigned count) {
    Listener listener(port);
    Lanes lanes;
    for (unsigned i = 0; i < count; ++i) {
        Channel channel = listener.accept();
        lanes.add([&](const Lanes::Next&) {
            Device device(device_name);
            serve_lane(channel, device);
            return 0;
        });
    }
    return lanes.deal(0);
}

}  // namespace interop
