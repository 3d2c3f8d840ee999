// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer target for lib/cm: the input is a program for a CmManager: MADs with any content, from the peer or a
// stranger, with ids that exist or not; commands with any parameters by two owners; time that jumps. Whatever comes,
// nothing is read out of bounds, the capacities hold, events go to their owner, and in the end nothing is left.
// Built with -Dfuzz=true and clang. Seeds: none needed; the ids of live connections are put into MADs on demand.
#include "cm/manager.h"
#include "tests/fuzz/input.h"

using namespace rocemu;
using namespace rocemu::cm;
using rocemu::fuzz::check;
using rocemu::fuzz::Input;

namespace {

constexpr uint32_t kCapacity = 8;

class Fuzz {
  public:
    explicit Fuzz(Input in)
        : in_(in),
          cm_({.max_owners = 2,
               .max_connections = kCapacity,
               .max_bindings = 4,
               .event_capacity = 8,
               .transmit_capacity = 8}) {
        check(cm_.add_owner(1, {.max_connections = 5, .max_bindings = 3}) == Status::Ok);
        check(cm_.add_owner(2, {.max_connections = 5, .max_bindings = 3}) == Status::Ok);
        const auto bound = cm_.bind(1, {.port = 7000});
        check(bound.ok() && cm_.listen(1, bound.value.id, 3) == Status::Ok);
        const auto udp = cm_.bind(2, {.port_space = PortSpace::Udp, .port = 7000, .transport = std::nullopt});
        check(udp.ok() && cm_.listen(2, udp.value.id, 3) == Status::Ok);
    }
    void run() {
        while (in_.size > 0) {
            step();
            if ((in_.byte() & 3) != 0) drain();
            check(cm_.connections() <= kCapacity);
        }
        for (const OwnerId owner : {1, 2}) cm_.remove_owner(now_, owner);
        for (int i = 0; cm_.next_deadline() != kNever; ++i) {
            check(i < 10000);
            now_ = std::max(now_, cm_.next_deadline());
            cm_.handle_timeout(now_);
            drain();
        }
        check(cm_.connections() == 0);
    }

  private:
    void drain() {
        for (TxMad tx; cm_.poll_transmit(tx);) {
            check(tx.remote_qpn == 1 && tx.qkey == kGsiQkey);
            sent_ = tx.mad;
        }
        for (Event e; cm_.poll_event(e);) {
            check(e.owner == 1 || e.owner == 2);
            check(cm_.info(e.owner, e.id).ok());
            check(cm_.info(3 - e.owner, e.id).status == Status::NotFound);
            check(e.private_data_size <= e.private_data.size() && e.reject_info_size <= e.reject_info.size());
            ids_[next_++ % 4] = e.id;
        }
    }
    CmId id() { return ids_[in_.byte() % 4]; }
    std::vector<std::byte> content() { return in_.bytes(in_.byte()); }

    void mad() {
        static constexpr Attribute kKinds[] = {Attribute::Req,     Attribute::Rep,  Attribute::Rtu,  Attribute::Rej,
                                               Attribute::Mra,     Attribute::Dreq, Attribute::Drep, Attribute::SidrReq,
                                               Attribute::SidrRep, Attribute::Lap,  Attribute::Apr};
        RxMad rx;
        rx.path.local_gid = wire::Gid::from_ipv4(2);
        rx.path.remote_gid = wire::Gid::from_ipv4(in_.byte() % 8 == 0 ? 3 : 1);
        rx.local_ca_guid = 2;
        MadHeader header;
        header.attribute_id = static_cast<uint16_t>(kKinds[in_.byte() % std::size(kKinds)]);
        header.transaction_id = in_.byte();
        if (in_.byte() % 16 == 0) header.class_version = in_.byte();
        header.write(rx.mad);
        const auto bytes = content();
        std::copy_n(bytes.begin(), std::min(bytes.size(), kMadSize - MadHeader::kSize), body_of(rx.mad));
        const uint8_t how = in_.byte();
        const auto kind = static_cast<Attribute>(header.attribute_id);
        if (how % 4 != 0) repair(rx.mad, kind);
        if (how % 16 == 15) rx.mad = sent_;  // a MAD of ours comes back
        cm_.handle_mad(now_, rx);
    }
    // Makes a MAD that gets far: an id that exists, a service that is listened to.
    void repair(Mad& mad, Attribute kind) {
        std::byte* p = body_of(mad);
        if (kind == Attribute::Req || kind == Attribute::SidrReq) {
            store_be<uint32_t>(p, in_.byte() % 8);
            store_be<uint64_t>(p + 8, service_id_of({kind == Attribute::Req ? PortSpace::Tcp : PortSpace::Udp, 7000}));
            std::byte* ip = p + (kind == Attribute::Req ? 140 : 16);
            ip[0] = std::byte{0};
            ip[1] = std::byte{0x40};
            if (kind == Attribute::Req) {
                if (in_.byte() % 8 != 0) {
                    p[50] = field(3, 4, 4);    // path MTU
                    p[94] &= std::byte{0x7f};  // SL
                }
                p[43] &= std::byte{0xf9};
                store_be24(p + 32, in_.byte() % 8);
                wire::Gid::from_ipv4(1).write(p + 56);
                wire::Gid::from_ipv4(2).write(p + 72);
            }
            return;
        }
        store_be<uint32_t>(p, in_.byte() % 8);
        store_be<uint32_t>(p + (kind == Attribute::SidrRep ? 0 : 4), id());
        if (kind == Attribute::Rep) store_be24(p + (in_.byte() % 2 == 0 ? 12 : 16), in_.byte() % 8);
        if (kind == Attribute::Dreq) store_be24(p + 8, 5);
    }

    void step() {
        const OwnerId owner = 1 + in_.byte() % 2;
        switch (in_.byte() % 12) {
            case 0: {
                ConnectParams p;
                p.path.local_gid = wire::Gid::from_ipv4(2);
                p.path.remote_gid = wire::Gid::from_ipv4(1);
                p.local_qpn = 5;
                p.retry_count = in_.byte() % 9;
                p.packet_lifetime = in_.byte() % 33;
                const auto data = content();
                p.private_data = data;
                if (const auto c = cm_.connect(now_, owner, p); c.ok()) ids_[next_++ % 4] = c.value;
                return;
            }
            case 1: {
                const auto data = content();
                (void)cm_.accept(now_, owner, id(), {.local_qpn = 5, .private_data = data});
                return;
            }
            case 2:
                (void)cm_.confirm(owner, id(), content());
                return;
            case 3: {
                const auto data = content();
                (void)cm_.reject(now_, owner, id(), {.info = data});
                return;
            }
            case 4:
                (void)cm_.disconnect(now_, owner, id(), content());
                return;
            case 5:
                (void)cm_.destroy(now_, owner, id());
                return;
            case 6: {
                SidrRequestParams p;
                p.path.remote_gid = wire::Gid::from_ipv4(1);
                if (const auto c = cm_.sidr_request(now_, owner, p); c.ok()) ids_[next_++ % 4] = c.value;
                return;
            }
            case 7:
                (void)cm_.sidr_reply(now_, owner, id(), {.qpn = in_.word()});
                return;
            case 8:
                (void)cm_.notify_established(owner, id());
                (void)cm_.request_fetched(owner, id());
                return;
            case 9:
                now_ = now_ + static_cast<Duration>(in_.word()) * 16;
                cm_.handle_timeout(now_);
                return;
            default:
                return mad();
        }
    }

    Input in_;
    CmManager cm_;
    Instant now_{0};
    CmId ids_[4]{};
    unsigned next_ = 0;
    Mad sent_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Fuzz({data, size}).run();
    return 0;
}
