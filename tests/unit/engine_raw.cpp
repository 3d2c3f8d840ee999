// SPDX-License-Identifier: BSD-3-Clause
// Raw packet QPs: frames as they are between two NICs of the switch, steered by rules; what is refused; spreading over
// several queues by a hash; no frame to a QP that is gone.
#include <catch2/catch.hpp>

#include "engine/flows.h"
#include "support/engine_world.h"
#include "wire/flow_key.h"
#include "wire/raw_frame.h"

using namespace rocemu;
using namespace rocemu::test;
using stats::Counter;

namespace {

using Bytes = std::vector<std::byte>;

// Ethernet, IPv4, UDP; `who` is the last byte of the source address.
Bytes frame_of(size_t length, uint8_t who = 1, uint8_t last_mac = 0x77) {
    Bytes f(std::max(length, size_t{42}), std::byte{'a'});
    const uint8_t head[] = {2,    0, 0, 0, 0, last_mac, 2, 0, 0,    0, 0, 0x10, 8,  0, 0x45, 0,   0, 200, 0, 0,   0,
                            0,    64, 17, 0, 0, 10,      1, 1, who,  10, 1, 1,    99, 0x30, 0x39, 0xd4, 0x31, 0, 180, 0, 0};
    std::memcpy(f.data(), head, sizeof head);
    f.resize(length);
    return f;
}

class Raw : public EngineWorld {
  public:
    Raw() {
        qp_type = QpType::RawPacket;
        app = &add_session();
        cq = &add_cq(*app);
        for (auto* p : {&source, &target}) p->assign(0x20000, std::byte{0x66});
        key = add_mr(*app, source.data(), source.size());
        target_key = add_mr(*app, target.data(), target.size());
    }
    AppQp& qp(uint32_t device, AppCq* receives = nullptr) {
        AppQp& q = add_qp(*app, *cq, receives != nullptr ? *receives : *cq, device);
        transport::QpAttr a;
        a.port_num = 1;
        a.state = QpState::Init;
        REQUIRE(modify(q, a, qp_attr_mask::kState | qp_attr_mask::kPort) == 0);
        for (const QpState s : {QpState::Rtr, QpState::Rts}) {
            a.state = s;
            REQUIRE(modify(q, a, qp_attr_mask::kState) == 0);
        }
        return q;
    }
    engine::FlowSetup rule(uint32_t device, std::vector<uint32_t> queues, uint32_t priority = 0) {
        engine::FlowSetup r;
        r.session = app->id;
        r.id = ++flows;
        r.device = device;
        r.priority = priority;
        r.queues = std::move(queues);
        return r;
    }
    // Of frames to this MAC address.
    engine::FlowSetup mac_rule(uint32_t device, const AppQp& q, uint8_t last_mac, uint32_t priority = 0) {
        auto r = rule(device, {q.qpn}, priority);
        r.key.dst_mac[0] = 2;
        r.key.dst_mac[5] = last_mac;
        std::memset(r.mask.dst_mac, 0xff, 6);
        return r;
    }
    void send(AppQp& q, const Bytes& frame) {
        std::memcpy(source.data() + sent, frame.data(), frame.size());
        q.post_send(make_wqe(WrOpcode::Send), {sge(source.data() + sent, static_cast<uint32_t>(frame.size()), key)});
        sent = (sent + frame.size()) % 0x10000;
    }
    void receive(AppQp& q, uint32_t length = 4096) {
        q.post_recv(received, {sge(target.data() + received * 4096, length, target_key)});
        ++received;
    }
    AppSession* app;
    AppCq* cq;
    Bytes source, target;
    uint32_t key, target_key;
    uint32_t flows = 0;
    size_t sent = 0;
    uint64_t received = 0;
};

}  // namespace

TEST_CASE("a frame goes to the QP whose rule fits, byte for byte", "[engine][raw]") {
    Raw w;
    AppCq& there = w.add_cq(*w.app);
    AppQp& a = w.qp(0);
    AppQp& b = w.qp(1, &there);
    w.shard.create_flow(w.mac_rule(1, b, 0x77));
    for (const size_t n : {size_t{14}, size_t{59}, size_t{60}, size_t{61}, size_t{1514}}) {
        CAPTURE(n);
        std::fill(w.target.begin(), w.target.end(), std::byte{0x66});
        w.received = 0;
        w.receive(b);
        const Bytes frame = frame_of(n);
        w.send(a, frame);
        abi::Cqe c;
        REQUIRE(w.wait_cqe(*w.cq, c));
        CHECK(c.status == static_cast<uint8_t>(WcStatus::Success));
        REQUIRE(w.wait_cqe(there, c));
        CHECK(c.status == static_cast<uint8_t>(WcStatus::Success));
        CHECK(c.byte_len == std::max(n, wire::kMinFrame));
        CHECK(c.wc_flags == 0);
        CHECK(std::memcmp(w.target.data(), frame.data(), n) == 0);
        // What was filled up is zero, and nothing is written behind it.
        for (size_t i = n; i < wire::kMinFrame; ++i) CHECK(w.target[i] == std::byte{0});
        CHECK(w.target[std::max(n, wire::kMinFrame)] == std::byte{0x66});
    }
    CHECK(w.counter(0, Counter::tx_raw_frames) == 5);
    CHECK(w.counter(1, Counter::rx_raw_frames) == 5);
    CHECK(w.counter(0, Counter::tx_packets) == 0);
}

TEST_CASE("what no rule is for is nobody's; a frame without a receive waits, then is dropped", "[engine][raw]") {
    Raw w;
    AppQp& a = w.qp(0);
    AppQp& b = w.qp(1);
    w.receive(b);
    w.send(a, frame_of(100));
    w.turns(50);
    CHECK(w.counter(1, Counter::rx_other) == 1);
    auto rule = w.mac_rule(1, b, 0x77);
    w.shard.create_flow(rule);
    w.shard.destroy_flow(1, w.app->id + 1, rule.id);  // another session's
    w.send(a, frame_of(100));
    w.send(a, frame_of(100));
    w.turns(50);
    CHECK(w.counter(1, Counter::rx_raw_frames) == 2);
    CHECK(w.counter(1, Counter::ud_no_buffer_drops) == 0);
    w.turns(400, kMillisecond);
    CHECK(w.counter(1, Counter::ud_no_buffer_drops) == 1);
    w.shard.destroy_flow(1, w.app->id, rule.id);
    w.send(a, frame_of(100));
    w.turns(50);
    CHECK(w.counter(1, Counter::rx_other) == 2);
}

TEST_CASE("priorities: the best rules that fit, default rules last", "[engine][raw]") {
    Raw w;
    AppQp& a = w.qp(0);
    AppQp& best = w.qp(1);
    AppQp& twin = w.qp(1);
    AppQp& worse = w.qp(1);
    AppQp& rest = w.qp(1);
    for (AppQp* q : {&best, &twin, &worse, &rest}) w.receive(*q);
    w.shard.create_flow(w.mac_rule(1, worse, 0x77, 5));
    w.shard.create_flow(w.mac_rule(1, best, 0x77, 1));
    w.shard.create_flow(w.mac_rule(1, twin, 0x77, 1));
    auto all = w.rule(1, {rest.qpn});
    all.kind = engine::FlowKind::Default;
    w.shard.create_flow(all);
    const auto got = [&](std::vector<uint32_t> expected) {
        w.turns(50);
        std::vector<uint32_t> qpns;
        abi::Cqe c;
        while (w.cq->poll(c))
            if (c.is_recv) qpns.push_back(c.qpn);
        std::sort(qpns.begin(), qpns.end());
        CHECK(qpns == expected);
    };
    w.send(a, frame_of(100));
    got({best.qpn, twin.qpn});
    w.send(a, frame_of(100, 1, 0x55));
    got({rest.qpn});
}

TEST_CASE("frames that are no frames stop the send queue", "[engine][raw]") {
    for (const size_t n : {size_t{13}, size_t{4200 + 19}}) {
        Raw w;
        CAPTURE(n);
        AppQp& a = w.qp(0);
        w.send(a, Bytes(n));
        abi::Cqe c;
        REQUIRE(w.wait_cqe(*w.cq, c));
        CHECK(c.status == static_cast<uint8_t>(WcStatus::LocLenErr));
        transport::QpAttr attr;
        REQUIRE(w.shard.query_qp(a.qpn, &attr));
        CHECK(attr.state == QpState::Sqe);
        CHECK(w.counter(0, Counter::tx_raw_frames) == 0);
    }
}

TEST_CASE("rules of the sender's own port see its frames too", "[engine][raw]") {
    Raw w;
    AppCq& there = w.add_cq(*w.app);
    AppQp& a = w.qp(0);
    AppQp& b = w.qp(0, &there);
    w.receive(b);
    w.receive(b);
    w.shard.create_flow(w.mac_rule(0, b, 0x77));
    w.send(a, frame_of(100));
    abi::Cqe c;
    REQUIRE(w.wait_cqe(there, c));
    w.turns(50);
    CHECK_FALSE(there.poll(c));  // once
    // It left all the same: the switch floods it.
    CHECK(w.counter(1, Counter::rx_other) == 1);
}

TEST_CASE("a hash spreads frames over queues, the same address to the same queue", "[engine][raw]") {
    Raw w;
    AppQp& a = w.qp(0);
    std::vector<AppQp*> queues;
    std::vector<uint32_t> qpns;
    for (int i = 0; i < 4; ++i) {
        queues.push_back(&w.qp(1));
        qpns.push_back(queues.back()->qpn);
        for (int k = 0; k < 8; ++k) w.receive(*queues.back(), 64);
    }
    auto rule = w.mac_rule(1, *queues[0], 0x77);
    rule.queues = qpns;
    rule.hash.fields = net::rx_hash_fields::kIpv4;
    for (size_t i = 0; i < rule.hash.key.size(); ++i) rule.hash.key[i] = static_cast<uint8_t>(i * 37 + 11);
    w.shard.create_flow(rule);
    std::unordered_map<uint32_t, uint32_t> per_queue;
    for (uint8_t who = 1; who <= 8; ++who) {
        uint32_t first = 0;
        for (int again = 0; again < 2; ++again) {
            w.send(a, frame_of(60, who));
            w.turns(20);
            abi::Cqe c;
            uint32_t queue = 0;
            while (w.cq->poll(c))
                if (c.is_recv) queue = c.qpn;
            REQUIRE(queue != 0);
            CHECK((first == 0 || queue == first));
            first = queue;
            ++per_queue[queue];
        }
        const uint32_t hash = net::rx_hash_of(rule.hash, wire::flow_key_of(frame_of(60, who)));
        CHECK(first == qpns[hash % 4]);
    }
    CHECK(per_queue.size() > 1);
}

TEST_CASE("a QP that is gone gets nothing, nor does another session's under its number", "[engine][raw]") {
    Raw w;
    AppQp& a = w.qp(0);
    AppQp& b = w.qp(1);
    w.shard.create_flow(w.mac_rule(1, b, 0x77));
    auto foreign = w.mac_rule(1, b, 0x77);
    foreign.session = w.app->id + 1;
    w.shard.create_flow(foreign);
    w.receive(b);
    w.send(a, frame_of(100));
    w.turns(50);
    CHECK(w.counter(1, Counter::rx_raw_frames) == 1);
    w.run_until([&] { return w.shard.destroy_qp(b.qpn); });
    w.send(a, frame_of(100));
    w.turns(50);
    CHECK(w.counter(1, Counter::rx_raw_frames) == 1);
    CHECK(w.counter(0, Counter::tx_raw_frames) == 2);
}
