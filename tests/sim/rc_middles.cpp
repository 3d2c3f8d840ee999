// SPDX-License-Identifier: BSD-3-Clause
// What is sent in turns of as many packets as fit is what is sent in turns of one: packets of the middle of a message are
// built together. IBTA volume 1, 9.7.2.
#include <catch2/catch.hpp>

#include "tests/sim/probe.h"
#include "tests/sim/random.h"
#include "wire/parse.h"

using namespace rocemu;
using namespace rocemu::sim;
using namespace rocemu::transport;
using wire::Opcode;

namespace {

constexpr uint32_t kMtu = 256;

// What is sent: packets as numbers.
std::vector<uint64_t> numbers(const TxPacket& p, const TxBatch& batch) {
    std::vector<uint64_t> v{p.opcode, p.psn.value(), p.ack_req, p.solicited, p.pad, p.payload_len, p.remote_addr, p.rkey, p.dma_len,
                            p.imm_data, p.captured, reinterpret_cast<uintptr_t>(p.mapped), p.seg_count, p.gather_tag};
    for (uint32_t s = 0; s < p.seg_count; ++s) {
        const memory::Segment& segment = batch.segments.items[p.seg_first + s];
        v.insert(v.end(), {segment.va, segment.length, segment.key, segment.space, segment.region});
    }
    return v;
}

}  // namespace

TEST_CASE("packets sent in turns of many are those of turns of one", "[sim][rc][uc]") {
    static TxBatch batch;
    static std::array<std::byte, 1 << 16> stage;
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        INFO("seed " << seed);
        Random random(seed);
        PairOptions o;
        o.path_mtu = 1;
        o.memory_bytes = 1 << 20;
        if (random.chance(0.3)) o.config.type = QpType::Uc;
        const bool rc = o.config.type == QpType::Rc;
        o.config.window_packets = static_cast<uint32_t>(random.between(1, 200));
        Probe one(o), many(o);
        if (random.chance(0.3)) {  // too short for some messages: they fail where they leave it
            memory::Region region = *one.e.keys.find(kKey);
            region.length /= 2;
            for (Probe* p : {&one, &many}) p->e.keys.insert(region);
        }
        for (uint64_t n = 1 + random.below(12); n > 0; --n) {
            std::vector<Sge> sges(random.below(4));
            SendWqe wqe;
            wqe.opcode = random.chance(0.5) ? WrOpcode::RdmaWrite : random.chance(0.8) ? WrOpcode::Send : WrOpcode::SendWithImm;
            wqe.flags = random.chance(0.5) ? send_flags::kSolicited : 0;
            for (Sge& s : sges) s = {kMemoryBase + random.below(1 << 20), static_cast<uint32_t>(random.below(20 * kMtu)), kKey};
            for (const Sge& s : sges) wqe.length += s.length;
            if (sges.empty() || random.chance(0.3)) {
                if (sges.empty()) wqe.length = static_cast<uint32_t>(random.below(60 * kMtu));
                wqe.mapped = stage.data();
            }
            if (wqe.length == 0) continue;  // fits into any turn
            for (Probe* p : {&one, &many}) p->e.qp.post_send(wqe, sges, p->now);
        }
        const auto budget = static_cast<uint32_t>(random.between(1, 40 * kMtu));
        uint64_t psn = 0x200;
        for (int turn = 0; turn < 100; ++turn) {
            batch.clear();
            const bool more = many.e.qp.poll_transmit(many.now, budget, batch);
            std::vector<std::vector<uint64_t>> sent;
            for (uint32_t i = 0; i < batch.count; ++i) sent.push_back(numbers(batch.packets[i], batch));
            for (size_t i = 0; i < sent.size(); ++i) {
                batch.clear();
                (void)one.e.qp.poll_transmit(one.now, 1, batch);
                REQUIRE(batch.count == 1);
                CHECK(numbers(batch.packets[0], batch) == sent[i]);
            }
            if (!more) {  // it has found out why
                batch.clear();
                (void)one.e.qp.poll_transmit(one.now, 1, batch);
                CHECK(batch.count == 0);
            }
            CHECK(one.e.qp.next_deadline() == many.e.qp.next_deadline());
            psn += sent.size();
            if (sent.empty() && turn != 0 && random.chance(0.5)) break;
            if (!rc) {
                for (Probe* p : {&one, &many}) p->e.qp.handle_transmitted();
                continue;
            }
            // Some of it is acknowledged, or lost.
            wire::Bth bth;
            bth.opcode = static_cast<uint8_t>(Opcode::RcAcknowledge);
            bth.dest_qp = 0x22;
            bth.psn = static_cast<uint32_t>(psn - 1 - random.below(std::min<uint64_t>(psn - 0x200 + 1, 60))) & Psn::kMask;
            wire::ExtHeaders ext;
            ext.aeth = random.chance(0.9) ? wire::Aeth::ack(0) : wire::Aeth::nak(0, wire::NakCode::PsnSequenceError);
            const FrameBytes frame = make_frame(make_headers(1), bth, ext, {});
            wire::PacketView view;
            REQUIRE(wire::parse_frame(*frame, view).ok());
            for (Probe* p : {&one, &many}) {
                p->wait(10 * kMicrosecond);
                p->e.qp.handle_packet(view, p->now);
            }
        }
    }
}
