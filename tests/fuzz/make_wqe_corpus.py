#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_wqe_corpus.py PCAP_DIR OUT_DIR: the messages of recorded RC conversations as what an application would have put
into its queues: programs of fuzz_sq_reader.cpp. Names are stable: a second run changes nothing.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from make_corpus import frames  # noqa: E402
from make_program_corpus import WORK  # noqa: E402

CAPS = b"\x01\x00\x40"  # 2 send SGEs, 1 receive SGE, 64 bytes inline


def post(opcode, size):
    """A WQE with two SGEs, or inline when it is small; then one turn of the shard."""
    inline = 0 < size <= 64 and opcode in (0, 1, 2, 3)
    sges = bytes([0, min(size, 255) // 2, 60, min(size, 255) // 2])
    return bytes([0x15, opcode, 0 if inline else 2, 1 if inline else 0, min(size, 255), 8]) + sges + b"\x01"


def receive():
    return bytes([3, 1])  # the producer index of the receive queue, one turn


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    seen = set()
    for path in sorted(source.rglob("*.pcap")):
        program = CAPS
        for frame in frames(path):
            bth = 14 + (28 if frame[12:14] == b"\x08\x00" else 48)
            if frame[bth] in WORK and len(program) < 1000:
                program += receive() + post(WORK[frame[bth]], max(0, len(frame) - bth - 16))
        if program != CAPS and program not in seen:
            seen.add(program)
            (out / f"{path.parent.name}-{path.stem}").write_bytes(program)
    print(len(seen), "programs")
    return 0 if seen else 1


if __name__ == "__main__":
    sys.exit(main())
