// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer target for the readers of WQEs in shared memory: the input is what a hostile application writes into its
// send and receive queues, producer indices and doorbells, while the shard reads them. Nothing is read or written out
// of bounds, each WQE of a queue that is not nonsense completes once, and an honest neighbour on the same shard still
// works.
#include <algorithm>
#include <memory>

#include "tests/fuzz/honest_pair.h"

using namespace rocemu;
using namespace rocemu::test;
using rocemu::fuzz::check;
using rocemu::fuzz::Input;

namespace {

struct World : fuzz::HonestPair {
    test::AppSession& hostile = w.add_session();
    std::vector<uint8_t> scratch = std::vector<uint8_t>(8192);
    uint32_t hostile_key = w.add_mr(hostile, scratch.data(), scratch.size());
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
        if (world) world->works();
        world.reset();
        world = std::make_unique<World>();
    }
    Run(*world, {data, size}).run();
    return 0;
}
