// SPDX-License-Identifier: BSD-3-Clause
// CmPair: two hosts with a CmManager each, virtual time, and a seeded link between them that can lose, duplicate and
// reorder MADs. Time jumps to the next arrival or deadline. Events are handed to the test, which plays the consumers.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <stdexcept>

#include "cm/manager.h"

namespace rocemu::test {

struct CmLink {
    double drop = 0, duplicate = 0, reorder = 0;  // probabilities per MAD
    Duration latency = 50 * kMicrosecond;
};

class CmPair {
  public:
    static constexpr cm::OwnerId kOwner = 1;
    enum Side { A = 0, B = 1 };

    explicit CmPair(uint64_t seed = 1, CmLink link = {}, cm::Config config = {})
        : link(link),
          random_(seed),
          managers_{cm::CmManager(with_seed(config, 2 * seed)), cm::CmManager(with_seed(config, 2 * seed + 1))} {
        for (auto& manager : managers_)
            if (manager.add_owner(kOwner, {.max_connections = config.max_connections,
                                           .max_bindings = config.max_bindings}) != cm::Status::Ok)
                throw std::logic_error("owner");
    }

    cm::CmManager& cm(Side side) { return managers_[side]; }
    cm::CmManager& a() { return cm(A); }
    cm::CmManager& b() { return cm(B); }
    static wire::Gid gid(Side side) { return wire::Gid::from_ipv4(0x0a000001u + side); }
    static uint64_t guid(Side side) { return 0x1000u + side; }

    // Called for each event; without it events only gather in `events`.
    std::function<void(Side, const cm::Event&)> on_event;
    // Sees each MAD at its sender; returns false to lose it.
    std::function<bool(Side, const cm::TxMad&)> on_send;
    std::vector<cm::Event> events[2];
    CmLink link;
    Instant now{kSecond};

    cm::ConnectParams connect_params(Side from, uint16_t port, uint32_t qpn) const {
        const Side to = from == A ? B : A;
        cm::ConnectParams p;
        p.target.ip = {
            .ip_version = cm::IpVersion::V4, .source_port = 40000, .source = gid(from), .destination = gid(to)};
        p.target.destination_port = port;
        p.path.local_gid = gid(from);
        p.path.remote_gid = gid(to);
        p.local_ca_guid = guid(from);
        p.local_qpn = qpn;
        p.starting_psn = qpn + 0x1000;
        p.responder_resources = 4;
        p.initiator_depth = 3;
        return p;
    }
    cm::BindingId listen(Side side, uint16_t port, uint32_t backlog = 1000, cm::PortSpace space = cm::PortSpace::Tcp,
                         cm::Transport transport = cm::Transport::Rc) {
        cm::BindParams params{.port_space = space, .port = port, .transport = transport, .cookie = port};
        if (space == cm::PortSpace::Udp) params.transport = std::nullopt;
        const auto bound = cm(side).bind(kOwner, params);
        if (!bound.ok() || cm(side).listen(kOwner, bound.value.id, backlog) != cm::Status::Ok)
            throw std::logic_error("listen");
        return bound.value.id;
    }

    // Takes out what the managers have to say: MADs onto the link, events to the test.
    void pump() {
        for (bool more = true; more;) {
            more = false;
            for (const Side side : {A, B}) {
                for (cm::TxMad mad; cm(side).poll_transmit(mad); more = true) send(side, mad);
                for (cm::Event event; cm(side).poll_event(event); more = true) {
                    events[side].push_back(event);
                    if (on_event) on_event(side, event);
                }
            }
        }
    }
    // One arrival or deadline; false when nothing is left to happen until `limit`.
    bool step(Instant limit = kNever) {
        pump();
        const Instant arrival = flying_.empty() ? kNever : flying_.begin()->first;
        const Instant next = std::min({arrival, a().next_deadline(), b().next_deadline()});
        if (next == kNever || next > limit) return false;
        now = std::max(now, next);
        if (arrival <= now) {
            auto node = flying_.extract(flying_.begin());
            cm(node.mapped().first).handle_mad(now, node.mapped().second);
        } else {
            a().handle_timeout(now);
            b().handle_timeout(now);
        }
        pump();
        return true;
    }
    void run(Duration time) {
        const Instant end = now + time;
        while (step(end)) {
        }
        now = end;
    }
    void run_to_end() {
        while (step()) {
        }
    }
    [[nodiscard]] int count(Side side, cm::EventKind kind) const {
        return static_cast<int>(
            std::count_if(events[side].begin(), events[side].end(), [&](const auto& e) { return e.kind == kind; }));
    }
    [[nodiscard]] const cm::Event& last(Side side) const { return events[side].back(); }
    // A MAD as if it had come from the other host.
    cm::RxMad forge(Side to, const cm::Mad& mad) const {
        cm::RxMad rx;
        rx.path.local_gid = gid(to);
        rx.path.remote_gid = gid(to == A ? B : A);
        rx.local_ca_guid = guid(to);
        rx.mad = mad;
        return rx;
    }

  private:
    static cm::Config with_seed(cm::Config config, uint64_t seed) {
        config.seed = seed;
        return config;
    }
    bool chance(double p) { return p > 0 && std::uniform_real_distribution<>(0, 1)(random_) < p; }

    void send(Side from, const cm::TxMad& tx) {
        if (on_send && !on_send(from, tx)) return;
        if (chance(link.drop)) return;
        const Side to = tx.path.remote_gid == gid(A) ? A : B;
        cm::RxMad rx = forge(to, tx.mad);
        rx.path.remote_gid = tx.path.local_gid;
        for (int copies = chance(link.duplicate) ? 2 : 1; copies > 0; --copies) {
            const Duration extra =
                chance(link.reorder) ? static_cast<Duration>(random_() % (20 * uint64_t{kMillisecond})) : 0;
            flying_.emplace(now + link.latency + extra, std::pair{to, rx});
        }
    }

    std::mt19937_64 random_;
    cm::CmManager managers_[2];
    std::multimap<Instant, std::pair<Side, cm::RxMad>> flying_;
};

}  // namespace rocemu::test
