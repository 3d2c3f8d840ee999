// SPDX-License-Identifier: BSD-3-Clause
// The opcode table: codes, header order and sizes, written down a second time where a slip would be silent.
// Read IBTA volume 1, 9.2.1, annexes A14, A17.9, A19.
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "wire/build.h"
#include "wire/drop_reason.h"
#include "wire/opcode.h"

using namespace rocemu::wire;

TEST_CASE("which byte values are opcodes") {
    for (unsigned code = 0; code < 256; ++code) {
        const unsigned transport = code >> 5, operation = code & 31;
        const bool rc_like =
            operation <= 0x14 || operation == 0x16 || operation == 0x17 || operation == 0x1c || operation == 0x1d;
        const bool expected = ((transport == 0 || transport == 5) && rc_like) ||
                              (transport == 1 && operation <= 0x0b) || code == 0x64 || code == 0x65 || code == 0x81;
        INFO(code);
        CHECK(opcode_info(static_cast<uint8_t>(code)).valid() == expected);
    }
}

TEST_CASE("names are unique") {
    std::set<std::string> names;
    size_t valid = 0;
    for (unsigned code = 0; code < 256; ++code) {
        const auto& info = opcode_info(static_cast<uint8_t>(code));
        if (!info.valid()) continue;
        ++valid;
        names.insert(info.name);
    }
    CHECK(names.size() == valid);
}

TEST_CASE("extension header sizes") {
    CHECK(opcode_info(Opcode::RcSendFirst).ext_size == 0);
    CHECK(opcode_info(Opcode::RcSendOnlyInv).ext_size == 4);
    CHECK(opcode_info(Opcode::RcWriteFirst).ext_size == 16);
    CHECK(opcode_info(Opcode::RcWriteOnlyImm).ext_size == 20);
    CHECK(opcode_info(Opcode::RcReadRequest).ext_size == 16);
    CHECK(opcode_info(Opcode::RcReadResponseMiddle).ext_size == 0);
    CHECK(opcode_info(Opcode::RcReadResponseLast).ext_size == 4);
    CHECK(opcode_info(Opcode::RcAtomicAcknowledge).ext_size == 12);
    CHECK(opcode_info(Opcode::RcCompareSwap).ext_size == 28);
    CHECK(opcode_info(Opcode::RcFlush).ext_size == 20);
    CHECK(opcode_info(Opcode::RcAtomicWrite).ext_size == 16);
    CHECK(opcode_info(Opcode::UdSendOnlyImm).ext_size == 12);
    CHECK(opcode_info(Opcode::XrcFetchAdd).ext_size == 32);
    CHECK(opcode_info(Opcode::XrcAcknowledge).ext_size == 4);
    CHECK(kMaxExtSize == 32);
    CHECK(kMaxHeaders == 110);
}

TEST_CASE("order of the extension headers on the wire") {
    const auto offset = [](Opcode opcode, uint16_t bit) {
        return opcode_info(opcode).ext_offset[static_cast<size_t>(std::countr_zero(bit))];
    };
    CHECK(offset(Opcode::RcWriteOnlyImm, ext::kReth) == 0);
    CHECK(offset(Opcode::RcWriteOnlyImm, ext::kImmDt) == 16);
    CHECK(offset(Opcode::RcAtomicAcknowledge, ext::kAtomicAckEth) == 4);
    CHECK(offset(Opcode::UdSendOnlyImm, ext::kImmDt) == 8);
    CHECK(offset(Opcode::XrcWriteOnlyImm, ext::kXrcEth) == 0);
    CHECK(offset(Opcode::XrcWriteOnlyImm, ext::kReth) == 4);
    CHECK(offset(Opcode::XrcWriteOnlyImm, ext::kImmDt) == 20);
    CHECK(offset(Opcode::RcFlush, ext::kFeth) == 0);
    CHECK(offset(Opcode::RcFlush, ext::kReth) == 4);
}

TEST_CASE("what an opcode is", "[9.4.1][9.4.3]") {
    CHECK(opcode_info(Opcode::RcSendFirst).starts_message());
    CHECK_FALSE(opcode_info(Opcode::RcSendFirst).ends_message());
    CHECK(opcode_info(Opcode::RcSendLastInv).ends_message());
    CHECK(opcode_info(Opcode::RcSendMiddle).is_request());
    CHECK(opcode_info(Opcode::RcReadRequest).is_request());
    CHECK(opcode_info(Opcode::RcReadResponseMiddle).is_response());
    CHECK(opcode_info(Opcode::RcAcknowledge).is_ack());
    CHECK_FALSE(opcode_info(Opcode::Cnp).is_request());
    CHECK_FALSE(opcode_info(Opcode::Cnp).is_response());
    CHECK(opcode_info(Opcode::RcWriteLastImm).consumes_receive());
    CHECK_FALSE(opcode_info(Opcode::RcWriteOnly).consumes_receive());
    CHECK(opcode_info(Opcode::UcWriteOnlyImm).transport == Transport::Uc);
    CHECK(opcode_info(Opcode::XrcSendOnly).transport == Transport::Xrc);
}

TEST_CASE("drop reasons have unique counter names") {
    std::set<std::string> names;
    for (const auto& reason : kDropReasons) names.insert(reason.name);
    CHECK(names.size() == kDropReasonCount);
    CHECK(std::string(name_of(DropReason::PkeyMismatch)) == "pkey_mismatch");
}
