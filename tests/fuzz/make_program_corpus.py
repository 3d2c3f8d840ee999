#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_program_corpus.py PCAP_DIR OUT_DIR {responder|completer}: recorded RC conversations as programs of
transport_program.h: the frames of one direction, with receives (or the sends they answer) in between. At most 40 frames
each, so that mutation stays cheap. Names are stable: a second run changes nothing.
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


def record(kind, flags, payload):
    return bytes([kind, flags]) + payload


def main():
    source, out, role = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    out.mkdir(parents=True, exist_ok=True)
    count = 0
    for path in sorted(source.rglob("*.pcap")):
        by_target, work, order = {}, {}, []
        for frame in frames(path):
            v4 = frame[12:14] == b"\x08\x00"
            bth = 14 + (28 if v4 else 48)
            opcode, source_host = frame[bth], bytes(frame[26:30] if v4 else frame[22:38])
            target = (source_host, bytes(frame[bth + 5:bth + 8]))
            wanted = REQUESTS if role == "responder" else RESPONSES
            if opcode in WORK and role == "completer":
                size = len(frame)
                work.setdefault(path, []).append((WORK[opcode], size))
            if opcode not in wanted:
                continue
            by_target.setdefault(target, []).append((opcode, bth, frame))
            order.append(target)
        for number, target in enumerate(dict.fromkeys(order)):
            chosen = by_target[target][:40]
            psn = chosen[0][2][chosen[0][1] + 9:chosen[0][1] + 12]
            program = bytearray([0x60]) + psn
            if role == "completer":
                for opcode, size in work.get(path, [])[:16]:
                    program += record(8, 0, bytes([opcode, 2]) + struct.pack(">HHH", 0, 0, min(size, 4999)))
            for opcode, bth, frame in chosen:
                if role == "responder" and opcode in (0, 3, 4, 5, 9, 11, 0x16, 0x17):
                    program += record(10, 0, struct.pack(">HH", 0x1000, 4999))
                program += record(6, 0, struct.pack(">H", len(frame)) + frame)
            name = "{}-{}-{}".format(path.parent.name, path.stem, number)
            if len(program) <= 12000:
                (out / name).write_bytes(program)
                count += 1
    print(count, "programs")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
