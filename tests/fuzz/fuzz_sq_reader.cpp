// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer target for the readers of WQEs in shared memory: the input is what a hostile application writes into its
// send and receive queues, producer indices and doorbells, while the shard reads them. Nothing is read or written out
// of bounds, each WQE of a queue that is not nonsense completes once, and an honest neighbour on the same shard still
// works.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

void check(bool ok) {
    if (!ok) std::abort();
}

struct Input {
    const uint8_t* data;
    size_t size;
    uint8_t byte() { return size == 0 ? 0 : (--size, *data++); }
    void fill(void* to, size_t n) {
        n = std::min(n, size);
        std::memcpy(to, data, n);
        data += n;
        size -= n;
    }
};

struct World {
    World()
        : honest(w.add_session()),
          hostile(w.add_session()),
          honest_cq(w.add_cq(honest)),
          a(w.add_qp(honest, honest_cq, honest_cq, 0)),
          b(w.add_qp(honest, honest_cq, honest_cq, 1)) {
        check(w.connect(a, b) == 0);
        honest_key = w.add_mr(honest, memory.data(), memory.size());
        hostile_key = w.add_mr(hostile, scratch.data(), scratch.size());
    }
    void neighbour_works() {
        std::fill_n(memory.begin(), 3000, ++pattern);
        b.post_recv(1, {sge(&memory[4096], 3000, honest_key)});
        a.post_send(make_wqe(WrOpcode::Send), {sge(memory.data(), 3000, honest_key)});
        abi::Cqe e;
        for (int i = 0; i < 2; ++i)
            check(w.wait_cqe(honest_cq, e) && static_cast<WcStatus>(e.status) == WcStatus::Success);
        check(std::equal(memory.begin(), memory.begin() + 3000, memory.begin() + 4096));
    }
    std::vector<uint8_t> memory = std::vector<uint8_t>(8192), scratch = std::vector<uint8_t>(8192);
    uint8_t pattern = 0;
    EngineWorld w;
    AppSession &honest, &hostile;
    AppCq& honest_cq;
    AppQp &a, &b;
    uint32_t honest_key, hostile_key;
};

class Run {
  public:
    Run(World& world, Input in)
        : x_(world),
          in_(in),
          cq_(world.w.add_cq(world.hostile)),
          q_(world.w.add_qp(world.hostile, cq_, cq_, 0,
                            {16, 16, 1u + in_.byte() % 4, 1u + in_.byte() % 4, uint32_t{in_.byte()}})) {
        check(world.w.connect_one(q_, world.b, 3, 8, 7) == 0);
    }
    void run() {
        while (in_.size > 0) {
            step();
            x_.w.turns(1 + in_.byte() % 4);
            drain();
        }
        // ERR gives every WQE back; what is beyond a possible producer was never posted.
        transport::QpAttr attr;
        attr.state = QpState::Err;
        (void)x_.w.modify(q_, attr, qp_attr_mask::kState);
        x_.w.run_until([&] { return drain(), false; }, 200);
        check(wild_ || sends_ == posted_);
        check(x_.w.shard.destroy_qp(q_.qpn));
        x_.w.turns(50);
    }

  private:
    void step() {
        const uint8_t kind = in_.byte();
        switch (kind & 7) {
            case 0:  // the producer index anywhere
                if (kind & 0x80) {
                    wild_ = true;
                    q_.sq_header().producer.store(uint32_t{in_.byte()} << (kind >> 3 & 15));
                    q_.rq_header().producer.store(uint32_t{in_.byte()} << (kind >> 3 & 15));
                }
                break;
            case 1:  // bytes of slots that may be in use: a WQE may be unsignaled now
                wild_ = true;
                in_.fill(q_.sq_slot(in_.byte()), q_.sq_stride);
                break;
            case 2:
                in_.fill(q_.rq_slot(in_.byte()), q_.rq_stride);
                [[fallthrough]];
            case 3:
                q_.rq_header().producer.store(++q_.rq_producer, std::memory_order_release);
                if (q_.rq_producer - receives_ > 16) wild_ = true;
                break;
            case 4:
                x_.hostile.doorbells.as<abi::DoorbellBlock>()->words[in_.byte()].store(~uint64_t{0});
                break;
            default:
                post(kind);
        }
        x_.hostile.ring(q_.slot_number);
    }
    // A WQE: nearly right, or any bytes.
    void post(uint8_t kind) {
        if (posted_ - sends_ >= 16) return;
        std::byte* slot = q_.sq_slot(q_.sq_producer);
        if (kind & 8) {
            in_.fill(slot, q_.sq_stride);
        } else {
            abi::SqWqe wqe = make_wqe(static_cast<WrOpcode>(in_.byte() % 12));
            wqe.num_sge = in_.byte() % 6;
            wqe.payload_kind = in_.byte() % 3;
            wqe.length = in_.byte();
            wqe.remote_addr = reinterpret_cast<uintptr_t>(x_.scratch.data()) + in_.byte();
            wqe.rkey = x_.hostile_key;
            std::memcpy(slot, &wqe, sizeof wqe);
            auto* sges = reinterpret_cast<abi::WqeSge*>(slot + sizeof wqe);
            for (uint32_t i = 0; i < q_.caps.max_send_sge; ++i)
                sges[i] = {reinterpret_cast<uintptr_t>(x_.scratch.data()) + in_.byte() * 40u,
                           uint32_t{in_.byte()} << (kind >> 4), x_.hostile_key};
        }
        reinterpret_cast<abi::SqWqe*>(slot)->flags |= send_flags::kSignaled;
        ++posted_;
        q_.sq_header().producer.store(++q_.sq_producer, std::memory_order_release);
    }
    void drain() {
        for (abi::Cqe e; cq_.poll(e);) {
            if (e.qpn != q_.qpn) continue;
            ++(e.is_recv ? receives_ : sends_);
        }
    }

    World& x_;
    Input in_;
    AppCq& cq_;
    AppQp& q_;
    uint32_t posted_ = 0, sends_ = 0, receives_ = 0;
    bool wild_ = false;  // queues are nonsense now: nothing is promised about completions
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static std::unique_ptr<World> world;
    static int runs = 0;
    if (runs++ % 100 == 0) {
        if (world) world->neighbour_works();
        world.reset();
        world = std::make_unique<World>();
    }
    Run(*world, {data, size}).run();
    return 0;
}
