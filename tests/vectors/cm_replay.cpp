// SPDX-License-Identifier: BSD-3-Clause
// Replays recorded rdma_cm exchanges with a CmManager in the place of each of the two Linux peers in turn: it is given
// what the other one sent and the commands that its consumer gave, and must send what was recorded.
//
// Byte for byte the same, except: our communication ids are our own (and with them the ids in what is sent to us), and
// so are the transaction ids of exchanges that we start: REQ, SIDR_REQ and DREQ. Nothing else differs.
// What the consumer of librdmacm or the layer above chose is taken from the recording: QPN, PSN, resources, private
// data, flow label, and the rest of ConnectParams and AcceptParams.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "cm/drep.h"
#include "cm/manager.h"
#include "vectors/cm_recorded.h"

using namespace rocemu;
using namespace rocemu::cm;

namespace {

constexpr OwnerId kOwner = 7;

class Replay {
  public:
    Replay(std::vector<test::RecordedMad> mads, wire::Gid us) : mads_(std::move(mads)), us_(us), cm_(Config{}) {
        REQUIRE(cm_.add_owner(kOwner, {}) == Status::Ok);
    }

    void run() {
        for (size_t i = 0; i < mads_.size(); ++i) {
            INFO("message " << i << " attribute " << std::hex << static_cast<int>(mads_[i].attribute()));
            now_ = now_ + kMillisecond;
            if (mads_[i].sender() == us_) {
                command(mads_[i]);
                compare(mads_[i].rx.mad);
            } else {
                const bool refused = i + 1 < mads_.size() && mads_[i + 1].attribute() == Attribute::Rej;
                receive(mads_[i], refused);
            }
            while (cm_.poll_event(event_)) ++events[event_.kind];
        }
        TxMad more;
        CHECK_FALSE(cm_.poll_transmit(more));
    }

    std::map<EventKind, int> events;
    CmManager& manager() { return cm_; }
    Instant now() const { return now_; }

  private:
    [[nodiscard]] uint32_t ours(uint32_t recorded) const {
        const auto it = ids_.find(recorded);
        return it == ids_.end() ? recorded : it->second;
    }

    // The peer talks to the recorded id: it means ours.
    void receive(const test::RecordedMad& recorded, bool refused) {
        RxMad rx = recorded.rx;
        rx.local_ca_guid = us_.raw[15] == 1 ? 0x007700fffe000001 : 0x007700fffe000002;
        const Attribute a = recorded.attribute();
        if (a == Attribute::Req && !refused) listen(Req::parse(rx.mad).service_id);
        if (a == Attribute::SidrReq) listen(SidrReq::parse(rx.mad).service_id);
        if (a == Attribute::SidrRep) {
            store_be<uint32_t>(body_of(rx.mad), ours(load_be<uint32_t>(body_of(rx.mad))));
        } else if (a != Attribute::Req && a != Attribute::SidrReq) {
            store_be<uint32_t>(body_of(rx.mad) + 4, ours(load_be<uint32_t>(body_of(rx.mad) + 4)));
        }
        cm_.handle_mad(now_, rx);
    }

    void listen(uint64_t service_id) {
        const auto service = ip_service_of(service_id);
        REQUIRE(service);
        BindParams params{.port_space = service->port_space, .port = service->port};
        if (service->port_space == PortSpace::Udp) params.transport = std::nullopt;
        const auto bound = cm_.bind(kOwner, params);
        if (bound.status == Status::AddressInUse) return;  // an earlier connection of the same file
        REQUIRE(bound.ok());
        REQUIRE(cm_.listen(kOwner, bound.value.id, 8) == Status::Ok);
    }

    // What our consumer asked for, from the message that it led to.
    void command(const test::RecordedMad& recorded) {
        const Mad& mad = recorded.rx.mad;
        Path path = recorded.rx.path;
        std::swap(path.local_gid, path.remote_gid);
        switch (recorded.attribute()) {
            case Attribute::Req: {
                const Req r = Req::parse(mad);
                path.flow_label = r.primary.flow_label;
                path.hop_limit = r.primary.hop_limit;
                path.traffic_class = r.primary.traffic_class;
                const auto service = ip_service_of(r.service_id);
                const auto id =
                    cm_.connect(now_, kOwner,
                                {.target = {service->port_space, *IpHeader::parse(r.private_data), service->port},
                                 .path = path,
                                 .local_ca_guid = r.local_ca_guid,
                                 .local_qpn = r.local_qpn,
                                 .starting_psn = r.starting_psn,
                                 .qkey = r.local_qkey,
                                 .responder_resources = r.responder_resources,
                                 .initiator_depth = r.initiator_depth,
                                 .flow_control = r.end_to_end_flow_control,
                                 .retry_count = r.retry_count,
                                 .rnr_retry_count = r.rnr_retry_count,
                                 .srq = r.srq,
                                 .path_mtu = r.path_mtu,
                                 .private_data = std::span<const std::byte>(r.private_data).subspan(IpHeader::kSize)});
                REQUIRE(id.ok());
                ids_[r.local_comm_id] = id.value;
                return;
            }
            case Attribute::Rep: {
                const Rep r = Rep::parse(mad);
                REQUIRE(event_.kind == EventKind::ConnectRequest);
                ids_[r.local_comm_id] = event_.id;
                REQUIRE(cm_.accept(now_, kOwner, event_.id,
                                   {.local_qpn = r.local_qpn,
                                    .starting_psn = r.starting_psn,
                                    .qkey = r.local_qkey,
                                    .responder_resources = r.responder_resources,
                                    .initiator_depth = r.initiator_depth,
                                    .flow_control = r.end_to_end_flow_control,
                                    .rnr_retry_count = r.rnr_retry_count,
                                    .srq = r.srq,
                                    .private_data = r.private_data}) == Status::Ok);
                return;
            }
            case Attribute::Rtu:
                REQUIRE(cm_.confirm(kOwner, ours(Rtu::parse(mad).local_comm_id)) == Status::Ok);
                return;
            case Attribute::Dreq:
                REQUIRE(cm_.disconnect(now_, kOwner, ours(Dreq::parse(mad).local_comm_id)) == Status::Ok);
                return;
            case Attribute::Drep:
                REQUIRE(cm_.disconnect(now_, kOwner, ours(Drep::parse(mad).local_comm_id)) == Status::Ok);
                return;
            case Attribute::SidrReq: {
                const SidrReq r = SidrReq::parse(mad);
                const auto service = ip_service_of(r.service_id);
                const auto id = cm_.sidr_request(
                    now_, kOwner,
                    {.target = {service->port_space, *IpHeader::parse(r.private_data), service->port},
                     .path = path,
                     .private_data = std::span<const std::byte>(r.private_data).subspan(IpHeader::kSize)});
                REQUIRE(id.ok());
                ids_[r.request_id] = id.value;
                return;
            }
            case Attribute::SidrRep: {
                const SidrRep r = SidrRep::parse(mad);
                REQUIRE(event_.kind == EventKind::SidrRequest);
                REQUIRE(cm_.sidr_reply(
                            now_, kOwner, event_.id,
                            {.status = r.status, .qpn = r.qpn, .qkey = r.qkey, .private_data = r.private_data}) ==
                        Status::Ok);
                return;
            }
            default:
                REQUIRE(recorded.attribute() == Attribute::Rej);  // without listener: no consumer was asked
        }
    }

    void compare(const Mad& recorded) {
        TxMad sent;
        REQUIRE(cm_.poll_transmit(sent));
        CHECK(sent.remote_qpn == 1);
        CHECK(sent.qkey == 0x80010000);
        CHECK(sent.path.local_gid == us_);
        Mad expected = recorded;
        const Attribute a = attribute_of(recorded);
        const auto transaction = MadHeader::parse(recorded).transaction_id;
        if (a == Attribute::Req || a == Attribute::SidrReq || a == Attribute::Dreq)
            transactions_[transaction] = MadHeader::parse(sent.mad).transaction_id;
        if (const auto it = transactions_.find(transaction); it != transactions_.end())
            store_be<uint64_t>(expected.data() + 8, it->second);
        if (a != Attribute::SidrRep && a != Attribute::Rej)
            store_be<uint32_t>(body_of(expected), ours(load_be<uint32_t>(body_of(expected))));
        CHECK(sent.mad == expected);
    }

    std::vector<test::RecordedMad> mads_;
    wire::Gid us_;
    CmManager cm_;
    Instant now_{kSecond};
    Event event_;
    std::map<uint32_t, CmId> ids_;               // recorded id of the side we play -> ours
    std::map<uint64_t, uint64_t> transactions_;  // recorded -> ours, where we started the exchange
};

const std::vector<std::string> kConnections{"uml/rdmacm-rping.pcap",         "uml/rdmacm-rping.ipv6-ula.pcap",
                                            "uml/rdmacm-ucmatose.pcap",      "uml/rdmacm-rstream.pcap",
                                            "uml/ib_write_bw-rdmacm.pcap",   "uml/nvme-rdma.first400.pcap",
                                            "debian-6.12/rdmacm-rping.pcap", "debian-6.12/rdmacm-rping.ipv6-ula.pcap",
                                            "debian-6.12/rdmacm-ucmatose.pcap"};
const std::string kReject = "uml/rdmacm-reject-no-listener.pcap";
const std::vector<std::string> kSidr{"uml/rdmacm-udaddy-sidr.pcap", "debian-6.12/rdmacm-udaddy-sidr.pcap"};

Replay replay(const std::string& file, bool active) {
    auto mads = test::recorded_mads(std::filesystem::path(VECTORS_DIR) / file);
    REQUIRE_FALSE(mads.empty());
    const wire::Gid us = active ? mads[0].rx.path.remote_gid : mads[0].rx.path.local_gid;
    return Replay(std::move(mads), us);
}

}  // namespace

TEST_CASE("recorded connections, each side played by us") {
    const auto file = GENERATE(from_range(kConnections));
    const bool active = GENERATE(true, false);
    INFO(file << (active ? " active" : " passive"));
    auto r = replay(file, active);
    r.run();
    CHECK(r.events[EventKind::Rejected] + r.events[EventKind::Unreachable] == 0);
    const int opened = r.events[active ? EventKind::ConnectResponse : EventKind::Established];
    CHECK(opened >= 1);
    // nvme-rdma.first400 ends in the middle: only one of its connections is closed in it.
    CHECK(r.events[EventKind::Disconnected] == (file.find("nvme") == std::string::npos ? opened : 1));
    CHECK(r.manager().counters().rx_duplicates == 0);

    r.manager().remove_owner(r.now(), kOwner);
    for (Instant at = r.manager().next_deadline(); at != kNever; at = r.manager().next_deadline()) {
        r.manager().handle_timeout(at);
        for (TxMad m; r.manager().poll_transmit(m);) {
        }
    }
    CHECK(r.manager().connections() == 0);
}

TEST_CASE("recorded REJ without listener, both sides") {
    auto passive = replay(kReject, false);
    passive.run();
    CHECK(passive.events.empty());
    CHECK(passive.manager().connections() == 0);
    auto active = replay(kReject, true);
    active.run();
    CHECK(active.events == std::map<EventKind, int>{{EventKind::Rejected, 1}});
}

TEST_CASE("recorded SIDR exchange, both sides") {
    for (const std::string& file : kSidr) {
        auto passive = replay(file, false);
        passive.run();
        CHECK(passive.events == std::map<EventKind, int>{{EventKind::SidrRequest, 1}});
        auto active = replay(file, true);
        active.run();
        CHECK(active.events == std::map<EventKind, int>{{EventKind::SidrResult, 1}});
    }
}

TEST_CASE("no recorded MAD is left out of the replays") {
    std::set<std::string> replayed(kConnections.begin(), kConnections.end()), there;
    replayed.insert(kSidr.begin(), kSidr.end());
    replayed.insert(kReject);
    for (const auto& file : test::pcap_files(VECTORS_DIR))
        if (!test::recorded_mads(file).empty())
            there.insert(std::filesystem::relative(file, VECTORS_DIR).generic_string());
    CHECK(there == replayed);
}
