#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_cm_corpus.py PCAP_DIR OUT_DIR: recorded CM exchanges as programs of fuzz_cm.cpp: for each file and each of its
hosts the MADs that it received, with what its consumer did in between. Names are stable: a second run changes nothing.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from make_corpus import frames  # noqa: E402

MAD_SIZE, MAD_HEADER, CLASS_CM = 256, 24, 7
# In the order of kKinds in fuzz_cm.cpp.
KINDS = [0x10, 0x13, 0x14, 0x12, 0x11, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1A]
REQ, REP, RTU, REJ, DREQ, SIDR_REQ = 0x10, 0x13, 0x14, 0x12, 0x15, 0x17
# A step begins with its owner (byte % 2 + 1) and its kind; behind it a byte says whether events are taken.
TAKE = b"\x01"
# What a consumer does that leads to a MAD: connect, accept, confirm, reject, disconnect, SIDR request.
COMMANDS = {
    REQ: b"\x00\x00" + b"\x07\x10" + b"\x00" + TAKE,
    REP: b"\x00\x01" + b"\x00" + b"\x00" + TAKE,
    RTU: b"\x00\x02" + b"\x00" + b"\x00" + TAKE,
    REJ: b"\x00\x03" + b"\x00" + b"\x00" + TAKE,
    DREQ: b"\x00\x04" + b"\x00" + b"\x00" + TAKE,
    0x16: b"\x00\x04" + b"\x00" + b"\x00" + TAKE,
    SIDR_REQ: b"\x01\x06" + TAKE,
    0x18: b"\x01\x07" + b"\x00" + b"\x00\x00\x01\x02" + TAKE,
}


def mads(path):
    """(sender, MAD) of each CM datagram."""
    for frame in frames(path):
        v4 = frame[12:14] == b"\x08\x00"
        bth = 14 + (28 if v4 else 48)
        mad = frame[bth + 20:bth + 20 + MAD_SIZE]
        if frame[bth] == 0x64 and frame[bth + 5:bth + 8] == b"\0\0\1" and len(mad) == MAD_SIZE and mad[1] == CLASS_CM:
            yield bytes(frame[26:30] if v4 else frame[22:38]), mad


def received(mad, repaired):
    attribute = int.from_bytes(mad[16:18], "big")
    body = mad[MAD_HEADER:MAD_HEADER + 232].rstrip(b"\0")
    step = bytes([0, 11, 1, KINDS.index(attribute), mad[15], 1, len(body)]) + body
    # Repaired: its ids and service become those of this program.
    return step + (bytes([1, 1]) + b"\0\0\0"[: 2 if attribute in (REQ, REP) else 1] if repaired else b"\0") + TAKE


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    count = 0
    for path in sorted(source.rglob("*.pcap")):
        exchange = list(mads(path))
        for host, sender in enumerate(dict.fromkeys(s for s, _ in exchange)):
            for repaired in (True, False):
                program = b""
                for s, mad in exchange[:40]:
                    attribute = int.from_bytes(mad[16:18], "big")
                    program += COMMANDS.get(attribute, b"") if s == sender else received(mad, repaired)
                name = f"{path.parent.name}-{path.stem}-{host}-{'repaired' if repaired else 'as-recorded'}"
                (out / name).write_bytes(program)
                count += 1
    print(count, "programs")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
