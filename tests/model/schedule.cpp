// SPDX-License-Identifier: BSD-3-Clause
// See schedule.h. From top to bottom: fields by name, text, generation.
#include "tests/model/schedule.h"

#include <algorithm>
#include <istream>
#include <sstream>
#include <stdexcept>

#include "tests/sim/random.h"

namespace rocemu::model {

namespace {

template <typename P, typename F>
void post_fields(P& p, F f) {
    f("side", p.side), f("op", p.op), f("bytes", p.bytes), f("pieces", p.pieces), f("flags", p.flags);
    f("mapped", p.mapped), f("at", p.at), f("late", p.late), f("defect", p.defect);
    f("local_key", p.local_key), f("remote_key", p.remote_key);
}
template <typename P, typename F>
void fault_fields(P& p, F f) {
    f("side", p.side), f("frame", p.frame), f("kind", p.kind), f("delay", p.delay);
}
template <typename P, typename F>
void event_fields(P& p, F f) {
    f("side", p.side), f("kind", p.kind), f("at", p.at), f("lasts", p.lasts);
}
template <typename P, typename F>
void settings_fields(P& p, F f) {
    f("reference", p.reference), f("mtu", p.mtu), f("psn_a", p.psn_a), f("psn_b", p.psn_b);
    f("window_packets", p.window_packets), f("send_wqes", p.send_wqes), f("recv_wqes", p.recv_wqes);
    f("dma_window", p.dma_window), f("rd_atomic", p.rd_atomic), f("retry_cnt", p.retry_cnt);
    f("rnr_retry", p.rnr_retry), f("rnr_timer", p.rnr_timer), f("timeout", p.timeout), f("slow", p.slow);
    f("turn_bytes", p.turn_bytes), f("sq_sig_all", p.sq_sig_all), f("ref_window", p.ref_window);
    f("ref_read_whole", p.ref_read_whole), f("ref_ack_all", p.ref_ack_all), f("reorder", p.reorder);
}

// Assigns "name=value ..." to the fields that `visit` shows.
template <typename Visit>
void assign(std::istringstream& words, Visit visit) {
    for (std::string word; words >> word;) {
        const size_t equals = word.find('=');
        bool known = false;
        visit([&](const char* name, auto& field) {
            if (word.substr(0, equals) != name) return;
            field = static_cast<std::remove_reference_t<decltype(field)>>(std::stoull(word.substr(equals + 1)));
            known = true;
        });
        if (!known) throw std::runtime_error("schedule: unknown " + word);
    }
}

}  // namespace

std::string to_text(const Schedule& s) {
    std::ostringstream out;
    const auto put = [&](const char* name, auto value) { out << ' ' << name << '=' << value; };
    out << "seed seed=" << s.seed << "\nsettings";
    settings_fields(s.settings, put);
    for (const Post& p : s.posts) out << "\npost", post_fields(p, put);
    for (const Fault& f : s.faults) out << "\nfault", fault_fields(f, put);
    for (const Event& e : s.events) out << "\nevent", event_fields(e, put);
    out << '\n';
    return out.str();
}

Schedule read_schedule(std::istream& in) {
    Schedule s;
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::string kind;
        if (!(words >> kind) || kind[0] == '#') continue;
        if (kind == "seed")
            assign(words, [&](auto f) { f("seed", s.seed); });
        else if (kind == "settings")
            assign(words, [&](auto f) { settings_fields(s.settings, f); });
        else if (kind == "post")
            assign(words, [&, item = &s.posts.emplace_back()](auto f) { post_fields(*item, f); });
        else if (kind == "fault")
            assign(words, [&, item = &s.faults.emplace_back()](auto f) { fault_fields(*item, f); });
        else if (kind == "event")
            assign(words, [&, item = &s.events.emplace_back()](auto f) { event_fields(*item, f); });
        else
            throw std::runtime_error("schedule: unknown line " + kind);
    }
    return s;
}

namespace {

using sim::Random;

template <typename T>
T one_of(Random& r, std::initializer_list<T> list) {
    return list.begin()[r.below(list.size())];
}

Settings make_settings(Random& r) {
    Settings s;
    s.reference = static_cast<uint32_t>(r.below(3));
    s.mtu = one_of<uint32_t>(r, {1, 1, 1, 1, 2, 3, 5});
    const auto psn = [&] {
        return r.chance(0.5) ? static_cast<uint32_t>(0x1000000 - r.below(40)) & 0xffffff
                             : static_cast<uint32_t>(r.below(1 << 24));
    };
    s.psn_a = psn();
    s.psn_b = psn();
    s.window_packets = one_of<uint32_t>(r, {1, 2, 3, 8, 16, 128});
    s.send_wqes = one_of<uint32_t>(r, {1, 2, 5, 64});
    s.recv_wqes = one_of<uint32_t>(r, {1, 2, 5, 64});
    s.dma_window = one_of<uint32_t>(r, {2, 4, 16, 256});
    s.rd_atomic = one_of<uint32_t>(r, {1, 2, 3, 16, 128});
    s.retry_cnt = r.chance(0.7) ? 7 : static_cast<uint32_t>(r.below(8));
    s.rnr_retry = r.chance(0.7) ? 7 : static_cast<uint32_t>(r.below(8));
    s.rnr_timer = one_of<uint32_t>(r, {1, 2, 5, 12});
    s.timeout = static_cast<uint32_t>(r.between(8, 12));
    s.slow = r.chance(0.4) ? static_cast<uint32_t>(r.below(20'000)) : 0;
    s.turn_bytes = one_of<uint32_t>(r, {1, 600, 3000, 65536});
    s.sq_sig_all = r.chance(0.2);
    s.ref_window = one_of<uint32_t>(r, {1, 2, 4, 20});
    s.ref_read_whole = r.chance(0.5);
    s.ref_ack_all = r.chance(0.3);
    s.reorder = one_of<uint32_t>(r, {0, 0, 3, 32});
    return s;
}

bool is_send(uint32_t op) {
    return op == 2 || op == 3;
}
bool is_atomic(uint32_t op) {
    return op == 5 || op == 6;
}

// A defect that means something for the operation, or none.
Defect fit_defect(Defect d, const Post& p) {
    const bool remote = !is_send(p.op);
    switch (d) {
        case Defect::BadRkey:
        case Defect::ForeignRkey:
        case Defect::OutOfBounds:
        case Defect::NoRemoteRight:
            return remote && p.bytes > 0 ? d : Defect::None;
        case Defect::ZeroWithBadKey:
            return remote && !is_atomic(p.op) ? d : Defect::None;
        case Defect::ShortReceive:
        case Defect::BadReceiveKey:
            return is_send(p.op) && p.bytes > 0 ? d : Defect::None;
        case Defect::Unaligned:
            return is_atomic(p.op) ? d : Defect::None;
        case Defect::BadLkey:
        case Defect::LocalFault:
            return p.bytes > 0 && !p.mapped ? d : Defect::None;
        case Defect::RemoteFault:
            return p.bytes > 0 && !is_atomic(p.op) ? d : Defect::None;  // the counter is shared
        case Defect::None:
            break;
    }
    return Defect::None;
}

Post make_post(Random& r, const Settings& s, bool defects) {
    const uint32_t mtu = 128u << s.mtu;
    Post p;
    p.side = static_cast<uint32_t>(r.below(2));
    p.op = static_cast<uint32_t>(r.below(7));
    p.bytes = r.chance(0.5) ? one_of<uint32_t>(r, {0, 1, 2, 3, 4, 5, mtu - 1, mtu, mtu + 1, 2 * mtu, 2 * mtu + 1})
                            : static_cast<uint32_t>(r.below(6 * mtu));
    if (is_atomic(p.op)) p.bytes = 8;
    p.pieces = static_cast<uint32_t>(r.between(1, 4));
    p.flags = r.chance(0.7) ? send_flags::kSignaled : 0;
    if (r.chance(0.15)) p.flags |= send_flags::kFence;
    if (r.chance(0.2)) p.flags |= send_flags::kSolicited;
    p.mapped = p.op <= 3 && r.chance(0.2);
    p.at = r.chance(0.5) ? 0 : r.below(300'000);
    if (r.chance(0.15)) p.late = r.below(400'000);
    p.local_key = r.chance(0.2);
    p.remote_key = r.chance(0.2);
    if (defects && r.chance(0.08))
        p.defect = static_cast<uint32_t>(fit_defect(static_cast<Defect>(r.below(kDefects)), p));
    if (p.defect == static_cast<uint32_t>(Defect::ZeroWithBadKey)) p.bytes = 0;
    if (p.defect != 0) p.local_key = p.remote_key = 0;
    return p;
}

void make_faults(Random& r, Schedule& s) {
    const double rate = one_of<double>(r, {0, 0, 0.005, 0.02, 0.1, 0.3});
    const uint64_t kinds = r.between(1, 15);  // which kinds occur, a bit each
    for (uint32_t frame = 0; frame < 500; ++frame)
        for (uint32_t side = 0; side < 2; ++side) {
            if (!r.chance(rate)) continue;
            Fault f{side, frame, static_cast<uint32_t>(r.below(4)), 0};
            if (!(kinds >> f.kind & 1)) continue;
            f.delay = r.chance(0.9) ? r.below(30'000) : r.below(20'000'000);
            s.faults.push_back(f);
        }
}

}  // namespace

Schedule make_schedule(uint64_t seed) {
    Random r(seed);
    Schedule s;
    s.seed = seed;
    s.settings = make_settings(r);
    const bool defects = r.chance(0.5);
    const uint64_t posts = r.between(1, r.chance(0.5) ? 6 : 50);
    for (uint64_t i = 0; i < posts; ++i) s.posts.push_back(make_post(r, s.settings, defects));
    bool faulty_memory = false;  // one range for a whole run
    for (Post& p : s.posts) {
        const auto d = static_cast<Defect>(p.defect);
        if (d != Defect::RemoteFault && d != Defect::LocalFault) continue;
        if (faulty_memory) p.defect = 0;
        faulty_memory = true;
    }
    std::stable_sort(s.posts.begin(), s.posts.end(), [](const Post& a, const Post& b) { return a.at < b.at; });
    make_faults(r, s);
    const auto event = [&](EventKind kind) {
        s.events.push_back(
            {static_cast<uint32_t>(r.below(2)), static_cast<uint32_t>(kind), r.below(400'000), r.below(300'000)});
    };
    if (r.chance(0.2)) event(EventKind::Deregister);
    if (r.chance(0.05)) event(EventKind::Error);
    if (r.chance(0.15)) event(EventKind::Drain);
    return s;
}

}  // namespace rocemu::model
