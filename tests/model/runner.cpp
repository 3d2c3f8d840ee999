// SPDX-License-Identifier: BSD-3-Clause
// See runner.h. Order within an instant: the application, frames that arrive, timers, then everything that can be sent.
#include "tests/model/runner.h"

#include <cstdio>
#include <map>
#include <memory>

#include "tests/model/core_party.h"
#include "tests/model/reference_party.h"
#include "tests/model/wire_rules.h"
#include "wire/icrc.h"
#include "wire/parse.h"

namespace rocemu::model {

namespace {

constexpr Duration kLatency = 5 * kMicrosecond;
constexpr uint64_t kMaxSteps = 200'000;

// What may end other than well, from the schedule alone.
Weather weather_of(const Schedule& s, uint32_t side) {
    struct Way {
        bool breaks = false, refuses = false, late = false;
    } way[2];
    bool doomed[2] = {false, false}, error[2] = {false, false};
    for (const Event& e : s.events) {
        if (e.kind == static_cast<uint32_t>(EventKind::Deregister)) doomed[e.side] = true;
        if (e.kind == static_cast<uint32_t>(EventKind::Error)) error[e.side] = true;
    }
    for (const Post& p : s.posts) {
        const auto d = static_cast<Defect>(p.defect);
        const bool local = d == Defect::BadLkey || d == Defect::LocalFault;
        const bool bad = d != Defect::None && d != Defect::ZeroWithBadKey;
        Way& w = way[p.side];
        if (bad || (p.local_key && doomed[p.side]) || (p.remote_key && doomed[1 - p.side])) w.breaks = true;
        if ((bad && !local) || (p.remote_key && doomed[1 - p.side])) w.refuses = true;
        if (p.late > 0) w.late = true;
    }
    const Settings& set = s.settings;
    const auto rnr = [&](uint32_t d) { return set.rnr_retry != 7 && (way[d].late || set.recv_wqes < 64); };
    const uint32_t back = 1 - side;
    Weather w;
    w.doomed_here = doomed[side];
    w.doomed_there = doomed[back];
    // Each packet that a full DMA window drops is as good as lost.
    const bool lossy = !s.faults.empty() || set.dma_window < 256;
    w.retries = s.faults.size() + (set.dma_window < 256 ? 2 : 0) > set.retry_cnt;
    w.rnr_retries = rnr(side);
    w.own_error = way[back].breaks || error[side];
    w.peer_error = way[back].breaks || rnr(back) || error[0] || error[1] || (way[side].refuses && lossy);
    return w;
}

std::unique_ptr<Party> make_party(const Schedule& s, uint32_t who) {
    const uint64_t bytes = Oracle::memory_needed(s);
    if (s.settings.reference == who + 1) return std::make_unique<ReferenceParty>(s.settings, who, bytes);
    return std::make_unique<CoreParty>(s.settings, who, bytes);
}

class Run {
  public:
    Run(const Schedule& s, bool trace)
        : schedule_(s),
          trace_(trace),
          party_{make_party(s, 0), make_party(s, 1)},
          oracle_{Oracle(s, 0, *party_[0], *party_[1]), Oracle(s, 1, *party_[1], *party_[0])},
          rules_{WireRules(s, 0, oracle_[0], oracle_[1]), WireRules(s, 1, oracle_[1], oracle_[0])} {
        for (uint32_t i = 0; i < 2; ++i) {
            oracle_[i].weather = weather_of(s, i);
            party_[i]->on_completion = [this, i](const transport::Completion& c) {
                if (trace_)
                    note("%s completes %s %llu status %d", i == 0 ? "A" : "B", c.is_recv ? "receive" : "send",
                         static_cast<unsigned long long>(c.wr_id), int(c.status));
                c.is_recv ? oracle_[1 - i].on_receive(c) : oracle_[i].on_send(c);
            };
        }
        for (const Fault& f : s.faults) faults_[{f.side, f.frame}] = f;
        for (const Post& p : s.posts) plan(p.at, [this, &p] { post(p); });
        for (const Event& e : s.events) plan_event(e);
    }

    RunResult run() {
        for (result_.steps = 0; result_.steps < kMaxSteps; ++result_.steps) {
            if (!step()) {
                for (const Oracle& o : oracle_) result_.failure += result_.failure.empty() ? o.error() : "";
                return std::move(result_);
            }
            if (!problem().empty()) {
                result_.failure = problem();
                return std::move(result_);
            }
        }
        result_.failure = "does not come to rest";
        return std::move(result_);
    }

  private:
    struct Arrival {
        uint32_t to;
        sim::FrameBytes frame;
    };

    template <typename F>
    void plan(uint64_t at, F f) {
        plans_.emplace(Instant{static_cast<int64_t>(at) + 1000}, std::move(f));
    }
    void plan_event(const Event& e) {
        Party* p = party_[e.side].get();
        switch (static_cast<EventKind>(e.kind)) {
            case EventKind::Deregister:
                return plan(e.at, [p] { p->remove_key(kDoomedKey); });
            case EventKind::Error:
                return plan(e.at, [p] { p->set_state(QpState::Err); });
            case EventKind::Drain:
                plan(e.at, [p] { p->set_state(QpState::Sqd); });
                return plan(e.at + e.lasts, [p] { p->set_state(QpState::Rts); });
        }
    }
    void post(const Post& p) {
        Oracle& o = oracle_[p.side];
        if (!o.post(p).takes_receive()) return;
        // Receives are posted in order: a late one holds up those behind it.
        int64_t& last = last_receive_[p.side];
        last = std::max(last, now_.ns + static_cast<int64_t>(p.late));
        if (last == now_.ns) return o.post_receive();
        plans_.emplace(Instant{last}, [&o] { o.post_receive(); });
    }

    bool step() {
        Instant next =
            std::min({plans_.empty() ? kNever : plans_.begin()->first, wire_.empty() ? kNever : wire_.begin()->first,
                      party_[0]->next_event(), party_[1]->next_event()});
        if (next == kNever) {
            for (Oracle& o : oracle_) o.check_end();
            return false;
        }
        now_ = std::max(now_, next);
        while (!plans_.empty() && plans_.begin()->first <= now_) {
            const auto action = std::move(plans_.begin()->second);
            plans_.erase(plans_.begin());
            action();
        }
        while (!wire_.empty() && wire_.begin()->first <= now_) {
            const Arrival a = std::move(wire_.begin()->second);
            wire_.erase(wire_.begin());
            deliver(a);
        }
        for (auto& p : party_) p->timers(now_);
        for (uint32_t i = 0; i < 2; ++i) pump(i);
        return true;
    }

    void deliver(const Arrival& a) {
        wire::PacketView v;
        const bool good = wire::parse_frame(*a.frame, v).ok() && wire::icrc_matches(v);
        if (trace_)
            note("%s hears %s psn %u%s", a.to == 0 ? "A" : "B", good ? v.op->name : "garbage", v.bth.psn,
                 good && v.op->has(wire::ext::kAeth) && v.aeth().kind() != wire::AethKind::Ack ? " NAK" : "");
        if (good && party_[a.to]->state() != QpState::Err) rules_[a.to].delivered(v, now_);
        party_[a.to]->deliver(a.frame, now_);
    }

    void pump(uint32_t i) {
        std::vector<sim::FrameBytes> out;
        const bool dead = party_[i]->state() == QpState::Err;
        party_[i]->pump(now_, out);
        for (auto& f : out) {
            wire::PacketView v;
            if (!wire::parse_frame(*f, v).ok()) {
                problem_ = "a frame that does not parse";
                return;
            }
            if (trace_)
                note("%s sends #%u %s psn %u ack_req %d syndrome %x", i == 0 ? "A" : "B", frames_[i], v.op->name,
                     v.bth.psn, v.bth.ack_req, v.op->has(wire::ext::kAeth) ? v.aeth().syndrome : 0);
            if (schedule_.settings.reference != i + 1) {
                if (dead) problem_ = "a frame from a QP in ERR";
                rules_[i].sent(v, now_);
            }
            transmit(i, std::move(f));
        }
    }

    void transmit(uint32_t i, sim::FrameBytes f) {
        ++result_.frames;
        const auto it = faults_.find({i, frames_[i]++});
        const Instant at = now_ + kLatency;
        if (it == faults_.end()) {
            wire_.emplace(at, Arrival{1 - i, std::move(f)});
            return;
        }
        const Fault& fault = it->second;
        const Instant later = at + static_cast<Duration>(fault.delay);
        switch (static_cast<FaultKind>(fault.kind)) {
            case FaultKind::Drop:
                return;
            case FaultKind::Duplicate:
                wire_.emplace(later, Arrival{1 - i, f});
                break;
            case FaultKind::Delay:
                wire_.emplace(later, Arrival{1 - i, std::move(f)});
                return;
            case FaultKind::Corrupt:
                f = std::make_shared<std::vector<std::byte>>(*f);
                (*f)[fault.delay % f->size()] ^= std::byte{0x10};
                break;
        }
        wire_.emplace(at, Arrival{1 - i, std::move(f)});
    }

    [[nodiscard]] std::string problem() const {
        if (!problem_.empty()) return problem_;
        for (uint32_t i = 0; i < 2; ++i) {
            if (!oracle_[i].error().empty()) return oracle_[i].error();
            if (!rules_[i].error().empty()) return rules_[i].error();
            if (!party_[i]->violation().empty()) return party_[i]->violation();
        }
        return {};
    }

    template <typename... Args>
    void note(const char* format, Args... args) {
        char line[200];
        std::snprintf(line, sizeof line, format, args...);
        result_.trace += std::to_string(now_.ns) + ' ' + line + '\n';
    }

    const Schedule& schedule_;
    bool trace_;
    std::unique_ptr<Party> party_[2];
    Oracle oracle_[2];
    WireRules rules_[2];
    std::map<std::pair<uint32_t, uint32_t>, Fault> faults_;
    std::multimap<Instant, std::function<void()>> plans_;
    std::multimap<Instant, Arrival> wire_;
    uint32_t frames_[2] = {0, 0};
    int64_t last_receive_[2] = {0, 0};
    Instant now_{0};
    std::string problem_;
    RunResult result_;
};

}  // namespace

RunResult run_schedule(const Schedule& schedule, bool trace) {
    return Run(schedule, trace).run();
}

}  // namespace rocemu::model
