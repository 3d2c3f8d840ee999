#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_corpus.py PCAP_DIR OUT_DIR: one seed file per kind of recorded frame (network type, opcode, length class).

The seeds start the fuzzer where interesting frames are; names are stable, so that a second run changes nothing.
"""
import pathlib
import struct
import sys


def frames(path):
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at < len(data):
        (captured,) = struct.unpack_from(order + "I", data, at + 8)
        yield data[at + 16:at + 16 + captured]
        at += 16 + captured


def as_v1(frame):
    """The IPv6 header becomes a GRH and the UDP header goes (the recordings have no RoCE v1)."""
    (length,) = struct.unpack_from(">H", frame, 18)
    grh = frame[14:18] + struct.pack(">HB", length - 8, 0x1b) + frame[21:54]
    return frame[:12] + b"\x89\x15" + grh + frame[62:]


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    seen = set()
    for path in sorted(source.rglob("*.pcap")):
        for frame in frames(path):
            ethertype = frame[12:14].hex()
            bth = 14 + (28 if ethertype == "0800" else 48)
            kind = (ethertype, frame[bth], len(frame).bit_length(), frame[bth + 1] >> 4 & 3)
            if len(frame) > 1200 or kind in seen:
                continue
            seen.add(kind)
            name = "{}-{:02x}-{}-{}".format(*kind)
            (out / name).write_bytes(frame)
            (out / (name + "-vlan")).write_bytes(frame[:12] + b"\x81\x00\x60\x05" + frame[12:])
            if ethertype == "86dd":
                (out / (name + "-v1")).write_bytes(as_v1(frame))
    print(len(seen), "seeds")
    return 0 if seen else 1


if __name__ == "__main__":
    sys.exit(main())
