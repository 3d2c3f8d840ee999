// SPDX-License-Identifier: BSD-3-Clause
// See replay_conversation.h.
#include "tests/vectors/replay_conversation.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <tuple>

#include "support/pcap.h"
#include "wire/icrc.h"
#include "wire/parse.h"

namespace rocemu::replay {

namespace {

std::vector<Recorded> read_frames(const std::string& path, wire::Transport transport) {
    std::vector<Recorded> frames;
    wire::Gid first;
    for (auto& bytes : test::read_pcap(path)) {
        Recorded r;
        r.bytes = std::make_shared<std::vector<std::byte>>(std::move(bytes));
        if (!wire::parse_frame(*r.bytes, r.view).ok()) continue;
        if (frames.empty() && first == wire::Gid{}) first = r.view.src_gid;
        if (r.view.op->transport != transport || r.view.bth.dest_qp == 1) continue;
        if (!wire::icrc_matches(r.view)) throw std::runtime_error(path + ": a bad ICRC");
        r.host = r.view.src_gid == first ? 0 : 1;
        frames.push_back(std::move(r));
    }
    return frames;
}

// The lowest PSN of a stream of requests, as seen from any of them.
uint32_t lowest(const std::vector<const Recorded*>& requests) {
    Psn low(requests.front()->psn());
    for (const Recorded* r : requests)
        if (Psn(r->psn()).is_before(low)) low = Psn(r->psn());
    return low.value();
}

uint64_t span_of(const Recorded& r, uint32_t mtu) {
    if (r.view.op->operation != wire::Operation::ReadRequest) return 1;
    const uint32_t n = r.view.reth().length;
    return n == 0 ? 1 : (n + mtu - 1) / mtu;
}

// NVMe and rdma_cm programs negotiate larger path MTUs than 1024 where a packet shows it.
void find_mtu(Conversation& c) {
    c.path_mtu = c.file.find("mtu4096") != std::string::npos ? 5 : 3;
    for (const Recorded& r : c.frames)
        while (r.view.payload.size() > c.mtu()) ++c.path_mtu;
}

void find_messages(Conversation& c, uint32_t host) {
    std::map<uint64_t, const Recorded*> by_offset;
    for (const Recorded& r : c.frames)
        if (r.request() && r.host == host) by_offset.try_emplace(c.offset(host, r.psn()), &r);
    auto& list = c.messages[host];
    for (uint64_t next = 0; by_offset.count(next) != 0;) {
        PostedMessage m;
        m.first = next;
        m.head = by_offset.at(next);
        for (;; ++next) {
            const auto it = by_offset.find(next);
            if (it == by_offset.end()) return;  // the recording ends inside it
            m.tail = it->second;
            const auto& p = m.tail->view.payload;
            m.payload.insert(m.payload.end(), p.begin(), p.end());
            if (m.tail->view.op->ends_message()) break;
        }
        next += span_of(*m.tail, c.mtu());
        m.end = next;
        m.bytes = static_cast<uint32_t>(m.payload.size());
        if (m.head->view.op->operation == wire::Operation::ReadRequest) m.bytes = m.head->view.reth().length;
        if (m.head->view.op->is_atomic()) m.bytes = 8;
        list.push_back(std::move(m));
    }
}

}  // namespace

std::vector<Conversation> read_conversations(const std::string& path, const std::string& name) {
    const std::vector<Recorded> frames = read_frames(path + "/" + name, wire::Transport::Rc);
    // Streams of requests, by sender and QPN they go to.
    std::map<std::pair<uint32_t, uint32_t>, std::vector<const Recorded*>> streams;
    for (const Recorded& r : frames)
        if (r.request()) streams[{r.host, r.view.bth.dest_qp}].push_back(&r);
    // A response goes the other way with a PSN of the stream: that pairs the two QPNs.
    std::map<uint32_t, std::set<uint32_t>> pairs;  // QPN of host 0 -> QPNs of host 1
    for (const Recorded& r : frames) {
        if (r.request()) continue;
        for (const auto& [key, stream] : streams) {
            const uint64_t ahead = (r.psn() - lowest(stream)) & Psn::kMask;
            if (key.first == r.host || ahead > 4096) continue;
            if (r.host == 1)
                pairs[r.view.bth.dest_qp].insert(key.second);
            else
                pairs[key.second].insert(r.view.bth.dest_qp);
        }
    }
    std::vector<Conversation> all;
    for (const auto& [qpn0, others] : pairs) {
        if (others.size() != 1) throw std::runtime_error(name + ": connections cannot be told apart");
        Conversation c;
        c.file = name;
        c.qpn[0] = qpn0;
        c.qpn[1] = *others.begin();
        c.loss = name.find("loss-") != std::string::npos;
        for (const Recorded& r : frames)
            if (r.view.bth.dest_qp == c.qpn[1 - r.host]) c.frames.push_back(r);
        find_mtu(c);
        for (uint32_t host = 0; host < 2; ++host) {
            const auto it = streams.find({host, c.qpn[1 - host]});
            if (it == streams.end()) continue;
            c.start[host] = lowest(it->second);
        }
        for (uint32_t host = 0; host < 2; ++host) find_messages(c, host);
        all.push_back(std::move(c));
    }
    return all;
}

std::vector<Conversation> read_streams(const std::string& path, const std::string& name, wire::Transport transport) {
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Conversation> streams;
    for (const Recorded& r : read_frames(path + "/" + name, transport)) {
        // UC packets do not name their sender: one of each host sends to a QP.
        constexpr uint32_t kUnknown = 0x11;
        const uint32_t source = transport == wire::Transport::Ud ? r.view.deth().src_qp : kUnknown;
        Conversation& c = streams[{r.host, source, r.view.bth.dest_qp}];
        c.qpn[r.host] = source;
        c.qpn[1 - r.host] = r.view.bth.dest_qp;
        c.frames.push_back(r);
    }
    std::vector<Conversation> all;
    for (auto& [key, c] : streams) {
        c.file = name;
        c.transport = transport;
        const uint32_t host = std::get<0>(key);
        c.start[host] = c.frames.front().psn();
        find_mtu(c);
        find_messages(c, host);
        all.push_back(std::move(c));
    }
    return all;
}

}  // namespace rocemu::replay
