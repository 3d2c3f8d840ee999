// SPDX-License-Identifier: BSD-3-Clause
// The opcode table: every opcode of the RC, UC, UD and XRC transports and the CNP, declared once. Adding an opcode is
// adding a row; the enum, the lookup, parse and builder follow. Read IBTA volume 1, table in 9.2.1 (codes and header
// order), annex A14 (XRC: XRCETH on requests only), A17.9 (CNP), A19 (FLUSH, ATOMIC WRITE). RD is not supported.
//
// X(enumerator, code, text, transport, operation, position, extension headers, carries payload)
// clang-format off
#pragma once

#define ROCEMU_OPCODES(X) \
    X(RcSendFirst, 0x00, "RC_SEND_FIRST", Rc, Send, First, 0, true) \
    X(RcSendMiddle, 0x01, "RC_SEND_MIDDLE", Rc, Send, Middle, 0, true) \
    X(RcSendLast, 0x02, "RC_SEND_LAST", Rc, Send, Last, 0, true) \
    X(RcSendLastImm, 0x03, "RC_SEND_LAST_IMM", Rc, Send, Last, ext::kImmDt, true) \
    X(RcSendOnly, 0x04, "RC_SEND_ONLY", Rc, Send, Only, 0, true) \
    X(RcSendOnlyImm, 0x05, "RC_SEND_ONLY_IMM", Rc, Send, Only, ext::kImmDt, true) \
    X(RcWriteFirst, 0x06, "RC_WRITE_FIRST", Rc, Write, First, ext::kReth, true) \
    X(RcWriteMiddle, 0x07, "RC_WRITE_MIDDLE", Rc, Write, Middle, 0, true) \
    X(RcWriteLast, 0x08, "RC_WRITE_LAST", Rc, Write, Last, 0, true) \
    X(RcWriteLastImm, 0x09, "RC_WRITE_LAST_IMM", Rc, Write, Last, ext::kImmDt, true) \
    X(RcWriteOnly, 0x0a, "RC_WRITE_ONLY", Rc, Write, Only, ext::kReth, true) \
    X(RcWriteOnlyImm, 0x0b, "RC_WRITE_ONLY_IMM", Rc, Write, Only, ext::kReth | ext::kImmDt, true) \
    X(RcReadRequest, 0x0c, "RC_READ_REQUEST", Rc, ReadRequest, Only, ext::kReth, false) \
    X(RcReadResponseFirst, 0x0d, "RC_READ_RESPONSE_FIRST", Rc, ReadResponse, First, ext::kAeth, true) \
    X(RcReadResponseMiddle, 0x0e, "RC_READ_RESPONSE_MIDDLE", Rc, ReadResponse, Middle, 0, true) \
    X(RcReadResponseLast, 0x0f, "RC_READ_RESPONSE_LAST", Rc, ReadResponse, Last, ext::kAeth, true) \
    X(RcReadResponseOnly, 0x10, "RC_READ_RESPONSE_ONLY", Rc, ReadResponse, Only, ext::kAeth, true) \
    X(RcAcknowledge, 0x11, "RC_ACKNOWLEDGE", Rc, Acknowledge, Only, ext::kAeth, false) \
    X(RcAtomicAcknowledge, 0x12, "RC_ATOMIC_ACKNOWLEDGE", Rc, AtomicAcknowledge, Only, ext::kAeth | ext::kAtomicAckEth, false) \
    X(RcCompareSwap, 0x13, "RC_COMPARE_SWAP", Rc, CompareSwap, Only, ext::kAtomicEth, false) \
    X(RcFetchAdd, 0x14, "RC_FETCH_ADD", Rc, FetchAdd, Only, ext::kAtomicEth, false) \
    X(RcSendLastInv, 0x16, "RC_SEND_LAST_INV", Rc, Send, Last, ext::kIeth, true) \
    X(RcSendOnlyInv, 0x17, "RC_SEND_ONLY_INV", Rc, Send, Only, ext::kIeth, true) \
    X(RcFlush, 0x1c, "RC_FLUSH", Rc, Flush, Only, ext::kFeth | ext::kReth, false) \
    X(RcAtomicWrite, 0x1d, "RC_ATOMIC_WRITE", Rc, AtomicWrite, Only, ext::kReth, true) \
    X(UcSendFirst, 0x20, "UC_SEND_FIRST", Uc, Send, First, 0, true) \
    X(UcSendMiddle, 0x21, "UC_SEND_MIDDLE", Uc, Send, Middle, 0, true) \
    X(UcSendLast, 0x22, "UC_SEND_LAST", Uc, Send, Last, 0, true) \
    X(UcSendLastImm, 0x23, "UC_SEND_LAST_IMM", Uc, Send, Last, ext::kImmDt, true) \
    X(UcSendOnly, 0x24, "UC_SEND_ONLY", Uc, Send, Only, 0, true) \
    X(UcSendOnlyImm, 0x25, "UC_SEND_ONLY_IMM", Uc, Send, Only, ext::kImmDt, true) \
    X(UcWriteFirst, 0x26, "UC_WRITE_FIRST", Uc, Write, First, ext::kReth, true) \
    X(UcWriteMiddle, 0x27, "UC_WRITE_MIDDLE", Uc, Write, Middle, 0, true) \
    X(UcWriteLast, 0x28, "UC_WRITE_LAST", Uc, Write, Last, 0, true) \
    X(UcWriteLastImm, 0x29, "UC_WRITE_LAST_IMM", Uc, Write, Last, ext::kImmDt, true) \
    X(UcWriteOnly, 0x2a, "UC_WRITE_ONLY", Uc, Write, Only, ext::kReth, true) \
    X(UcWriteOnlyImm, 0x2b, "UC_WRITE_ONLY_IMM", Uc, Write, Only, ext::kReth | ext::kImmDt, true) \
    X(UdSendOnly, 0x64, "UD_SEND_ONLY", Ud, Send, Only, ext::kDeth, true) \
    X(UdSendOnlyImm, 0x65, "UD_SEND_ONLY_IMM", Ud, Send, Only, ext::kDeth | ext::kImmDt, true) \
    X(Cnp, 0x81, "CNP", Cnp, Cnp, Only, 0, true) \
    X(XrcSendFirst, 0xa0, "XRC_SEND_FIRST", Xrc, Send, First, ext::kXrcEth, true) \
    X(XrcSendMiddle, 0xa1, "XRC_SEND_MIDDLE", Xrc, Send, Middle, ext::kXrcEth, true) \
    X(XrcSendLast, 0xa2, "XRC_SEND_LAST", Xrc, Send, Last, ext::kXrcEth, true) \
    X(XrcSendLastImm, 0xa3, "XRC_SEND_LAST_IMM", Xrc, Send, Last, ext::kXrcEth | ext::kImmDt, true) \
    X(XrcSendOnly, 0xa4, "XRC_SEND_ONLY", Xrc, Send, Only, ext::kXrcEth, true) \
    X(XrcSendOnlyImm, 0xa5, "XRC_SEND_ONLY_IMM", Xrc, Send, Only, ext::kXrcEth | ext::kImmDt, true) \
    X(XrcWriteFirst, 0xa6, "XRC_WRITE_FIRST", Xrc, Write, First, ext::kXrcEth | ext::kReth, true) \
    X(XrcWriteMiddle, 0xa7, "XRC_WRITE_MIDDLE", Xrc, Write, Middle, ext::kXrcEth, true) \
    X(XrcWriteLast, 0xa8, "XRC_WRITE_LAST", Xrc, Write, Last, ext::kXrcEth, true) \
    X(XrcWriteLastImm, 0xa9, "XRC_WRITE_LAST_IMM", Xrc, Write, Last, ext::kXrcEth | ext::kImmDt, true) \
    X(XrcWriteOnly, 0xaa, "XRC_WRITE_ONLY", Xrc, Write, Only, ext::kXrcEth | ext::kReth, true) \
    X(XrcWriteOnlyImm, 0xab, "XRC_WRITE_ONLY_IMM", Xrc, Write, Only, ext::kXrcEth | ext::kReth | ext::kImmDt, true) \
    X(XrcReadRequest, 0xac, "XRC_READ_REQUEST", Xrc, ReadRequest, Only, ext::kXrcEth | ext::kReth, false) \
    X(XrcReadResponseFirst, 0xad, "XRC_READ_RESPONSE_FIRST", Xrc, ReadResponse, First, ext::kAeth, true) \
    X(XrcReadResponseMiddle, 0xae, "XRC_READ_RESPONSE_MIDDLE", Xrc, ReadResponse, Middle, 0, true) \
    X(XrcReadResponseLast, 0xaf, "XRC_READ_RESPONSE_LAST", Xrc, ReadResponse, Last, ext::kAeth, true) \
    X(XrcReadResponseOnly, 0xb0, "XRC_READ_RESPONSE_ONLY", Xrc, ReadResponse, Only, ext::kAeth, true) \
    X(XrcAcknowledge, 0xb1, "XRC_ACKNOWLEDGE", Xrc, Acknowledge, Only, ext::kAeth, false) \
    X(XrcAtomicAcknowledge, 0xb2, "XRC_ATOMIC_ACKNOWLEDGE", Xrc, AtomicAcknowledge, Only, ext::kAeth | ext::kAtomicAckEth, false) \
    X(XrcCompareSwap, 0xb3, "XRC_COMPARE_SWAP", Xrc, CompareSwap, Only, ext::kXrcEth | ext::kAtomicEth, false) \
    X(XrcFetchAdd, 0xb4, "XRC_FETCH_ADD", Xrc, FetchAdd, Only, ext::kXrcEth | ext::kAtomicEth, false) \
    X(XrcSendLastInv, 0xb6, "XRC_SEND_LAST_INV", Xrc, Send, Last, ext::kXrcEth | ext::kIeth, true) \
    X(XrcSendOnlyInv, 0xb7, "XRC_SEND_ONLY_INV", Xrc, Send, Only, ext::kXrcEth | ext::kIeth, true) \
    X(XrcFlush, 0xbc, "XRC_FLUSH", Xrc, Flush, Only, ext::kXrcEth | ext::kFeth | ext::kReth, false) \
    X(XrcAtomicWrite, 0xbd, "XRC_ATOMIC_WRITE", Xrc, AtomicWrite, Only, ext::kXrcEth | ext::kReth, true)
// clang-format on
