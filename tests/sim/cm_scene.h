// SPDX-License-Identifier: BSD-3-Clause
// Scene: a CmPair with a listener at B and one connection of A, brought forward step by step, with a record of which
// messages each side sent and a way to lose one kind of them.
#pragma once

#include <catch2/catch.hpp>

#include "sim/cm_pair.h"

namespace rocemu::test {

using cm::Attribute;

inline constexpr auto kA = CmPair::A;
inline constexpr auto kB = CmPair::B;
inline constexpr auto kOwner = CmPair::kOwner;
inline constexpr uint32_t kQpnA = 0x11, kQpnB = 0x22;

inline std::vector<std::byte> bytes(size_t size, uint8_t first) {
    std::vector<std::byte> v(size);
    for (size_t i = 0; i < size; ++i) v[i] = static_cast<std::byte>(first + i);
    return v;
}

// A pair with a listener at B and a request of A on its way.
struct Scene : CmPair {
    Scene() {
        listening = listen(kB, 7000);
        on_send = [this](Side side, const cm::TxMad& tx) {
            sent[side].push_back(cm::attribute_of(tx.mad));
            last_sent[side] = tx.mad;
            return side != muted && cm::attribute_of(tx.mad) != lost;
        };
    }
    void request() {
        id_a = a().connect(now, kOwner, connect_params(kA, 7000, kQpnA)).value;
        REQUIRE(id_a != 0);
        run(kMillisecond);
        if (!events[kB].empty()) id_b = last(kB).id;
    }
    void accept() {
        REQUIRE(b().accept(now, kOwner, id_b, {.cookie = 5, .local_qpn = kQpnB, .starting_psn = 99}) == cm::Status::Ok);
        run(kMillisecond);
    }
    void establish() {
        request();
        accept();
        REQUIRE(a().confirm(kOwner, id_a) == cm::Status::Ok);
        run(kMillisecond);
        REQUIRE(state(kB) == cm::State::Established);
        for (auto& e : events) e.clear();
        for (auto& s : sent) s.clear();
    }
    cm::State state(Side side) { return cm(side).info(kOwner, side == kA ? id_a : id_b).value.state; }
    void replay(Side to, const cm::Mad& mad) {
        cm(to).handle_mad(now, forge(to, mad));
        run(kMillisecond);
    }
    cm::BindingId listening = 0;
    cm::CmId id_a = 0, id_b = 0;
    Attribute lost{};  // messages of this kind never arrive
    int muted = -1;    // nothing of this side arrives
    std::vector<Attribute> sent[2];
    cm::Mad last_sent[2];
};

using Sent = std::vector<Attribute>;

}  // namespace rocemu::test
