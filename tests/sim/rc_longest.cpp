// SPDX-License-Identifier: BSD-3-Clause
// The longest message at the smallest path MTU: 2^31 bytes in exactly 2^23 packets, as many PSNs as may be outstanding.
// Without frames and payload: PacketViews go straight from one side's TxPackets into the other QP.
// IBTA volume 1, 9.7.1, C9-6.
#include <catch2/catch.hpp>

#include "tests/sim/probe.h"
#include "wire/parse.h"

using namespace rocemu;
using namespace rocemu::sim;
using namespace rocemu::transport;

namespace {

constexpr uint32_t kBigKey = 0x501;
constexpr uint64_t kBigBase = 0x1000'0000'0000;

struct Big : PairOptions {
    Big() {
        path_mtu = 1;
        config.window_packets = 4096;
    }
};

void add_region(Endpoint& e) {
    memory::Region big;
    big.key = kBigKey;
    big.pd = kPd;
    big.access = access_flags::kLocalWrite | access_flags::kRemoteRead | access_flags::kRemoteWrite;
    big.iova = big.va = kBigBase;
    big.length = 1u << 31;
    e.keys.insert(big);
}

// One QP's packets into the other, as views over prepared frames, one per opcode.
struct Shortcut {
    std::array<FrameBytes, 256> frames;
    std::array<wire::PacketView, 256> views;
    uint64_t packets = 0;

    const wire::PacketView& view(const TxPacket& p, uint32_t to) {
        FrameBytes& f = frames[p.opcode];
        wire::PacketView& v = views[p.opcode];
        const bool full = f != nullptr && v.payload.size() == p.payload_len;
        if (!full || wire::opcode_info(p.opcode).starts_message()) {
            wire::Bth bth;
            bth.opcode = p.opcode;
            bth.dest_qp = to;
            wire::ExtHeaders ext;
            ext.reth = {p.remote_addr, p.rkey, p.dma_len};
            ext.aeth = {p.syndrome, p.msn};
            f = make_frame(make_headers(1), bth, ext, std::vector<std::byte>(p.payload_len));
            REQUIRE(wire::parse_frame(*f, v).ok());
        }
        v.bth.psn = p.psn.value();
        v.bth.ack_req = p.ack_req;
        ++packets;
        return v;
    }
};

void finish_dma(Qp& qp, Instant now) {
    static DmaBatch batch;
    batch.clear();
    qp.poll_dma(batch);
    for (uint32_t i = 0; i < batch.count; ++i) qp.handle_dma(batch.requests[i].tag, DmaStatus::Ok, 0, now);
}

bool turn(Qp& from, Qp& to, Shortcut& s, Instant now) {
    static TxBatch batch;
    batch.clear();
    from.poll_transmit(now, 1 << 20, batch);
    for (uint32_t i = 0; i < batch.count; ++i) {
        to.handle_packet(s.view(batch.packets[i], to.config().qpn), now);
        finish_dma(to, now);
    }
    return batch.count != 0;
}

}  // namespace

TEST_CASE("2 GiB at path MTU 256", "[sim][rc][C9-6][9.7.1]") {
    for (const WrOpcode op : {WrOpcode::RdmaRead, WrOpcode::Send}) {
        QpPair pair{Big{}};
        add_region(pair.a);
        add_region(pair.b);
        Qp& a = pair.a.qp;
        Qp& b = pair.b.qp;
        const Sge sge{kBigBase, 1u << 31, kBigKey};
        SendWqe wqe;
        wqe.opcode = op;
        wqe.length = 1u << 31;
        wqe.rkey = kBigKey;
        wqe.remote_addr = kBigBase;
        wqe.flags = send_flags::kSignaled;
        a.post_send(wqe, {&sge, 1}, pair.now);
        // A second one has to wait until PSNs are free again.
        wqe.length = 100;
        const Sge small{kBigBase, 100, kBigKey};
        a.post_send(wqe, {&small, 1}, pair.now);
        RecvWqe receive;
        receive.length = 1u << 31;
        b.post_recv(receive, {&sge, 1});
        b.post_recv(receive, {&sge, 1});
        Shortcut there, back;
        for (bool moved = true; moved;) {
            moved = turn(a, b, there, pair.now);
            moved |= turn(b, a, back, pair.now);
        }
        CompletionBatch done;
        a.poll_completions(done);
        REQUIRE(done.count == 2);
        CHECK(done.items[0].status == WcStatus::Success);
        CHECK(done.items[1].status == WcStatus::Success);
        CHECK((op == WrOpcode::RdmaRead ? back : there).packets >= (1u << 23) + 1);
        done.clear();
        b.poll_completions(done);
        CHECK(done.count == (op == WrOpcode::Send ? 2 : 0));
        if (op == WrOpcode::Send) CHECK(done.items[0].byte_len == 1u << 31);
        CHECK(pair.a.count(stats::Counter::retransmitted_packets) == 0);
    }
}
