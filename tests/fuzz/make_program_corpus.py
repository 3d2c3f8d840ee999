#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_program_corpus.py PCAP_DIR OUT_DIR {responder|completer|unacked|shard}: recorded conversations as programs of
transport_program.h, or of fuzz_shard.cpp: the frames of one direction, with receives (or the sends they answer) in
between. At most 40 frames each, so that mutation stays cheap. Names are stable: a second run changes nothing.
"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from make_corpus import frames  # noqa: E402

REQUESTS = set(range(0, 0x0d)) | {0x13, 0x14, 0x16, 0x17}
RESPONSES = set(range(0x0d, 0x13))
# wire opcode that ends a request message -> enum ibv_wr_opcode
WORK = {2: 2, 3: 3, 4: 2, 5: 3, 8: 0, 9: 1, 10: 0, 11: 1, 12: 4, 0x13: 5, 0x14: 6, 0x16: 9, 0x17: 9}


UNACKED = set(range(0x20, 0x2c)) | {0x64, 0x65}
WANTED = {"responder": REQUESTS, "completer": RESPONSES, "unacked": UNACKED, "shard": REQUESTS | UNACKED}
TAKES_RECEIVE = {0x00, 0x03, 0x04, 0x05, 0x09, 0x0b, 0x16, 0x17, 0x20, 0x23, 0x24, 0x25, 0x29, 0x2b, 0x64, 0x65}


def record(kind, flags, payload):
    return bytes([kind, flags]) + payload


def program_of(role, chosen, work):
    """chosen: (opcode, offset of the BTH, frame) of each packet."""
    first = chosen[0]
    datagram = first[0] >= 0x64
    if role == "shard":
        # All six QPs; the frames go to the one of their transport that has a queue of its own, or the shared one.
        program = bytearray([0, 0xff])
        at = bytes([2 if datagram else 1 if first[0] >= 0x20 else 0])
        kinds = {"frame": 5, "receive": 8}
    else:
        program = bytearray([0xe0 if datagram else 0x60]) + first[2][first[1] + 9:first[1] + 12]
        at = b""
        kinds = {"frame": 6, "receive": 10}
    if role == "completer":
        for opcode, size in work[:16]:
            program += record(8, 0, bytes([opcode, 2]) + struct.pack(">HHH", 0, 0, min(size, 4999)))
    for opcode, bth, frame in chosen:
        if role != "completer" and opcode in TAKES_RECEIVE:
            program += record(kinds["receive"], 0, at + struct.pack(">HH", 0x1000, 4999))
        program += record(kinds["frame"], 0, at + struct.pack(">H", len(frame)) + frame)
    return program


def main():
    source, out, role = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    out.mkdir(parents=True, exist_ok=True)
    count = 0
    for path in sorted(source.rglob("*.pcap")):
        by_target, work = {}, []
        for frame in frames(path):
            v4 = frame[12:14] == b"\x08\x00"
            bth = 14 + (28 if v4 else 48)
            opcode, source_host = frame[bth], bytes(frame[26:30] if v4 else frame[22:38])
            if opcode in WORK:
                work.append((WORK[opcode], len(frame)))
            if opcode in WANTED[role]:
                target = (source_host, bytes(frame[bth + 5:bth + 8]))
                by_target.setdefault(target, []).append((opcode, bth, frame))
        for number, packets in enumerate(by_target.values()):
            program = program_of(role, packets[:40], work)
            if len(program) <= 12000:
                (out / "{}-{}-{}".format(path.parent.name, path.stem, number)).write_bytes(program)
                count += 1
    print(count, "programs")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
