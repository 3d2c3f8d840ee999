#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""frames.py icrc FILE...            verifies the ICRC of every RoCEv2/IPv4 and RoCEv2/IPv6 frame
frames.py compare FILE OTHER...      whether FILE holds the same RoCEv2 frames as the OTHER files together, in any
                                     order between the files; frames with a comment (dropped ones) do not count
frames.py count FILE                 the number of RoCEv2 frames

Reads pcap and pcapng. Written apart from the C++ code, so that it can judge it (InfiniBand A17 CA17-22).
"""
import collections
import struct
import sys
import zlib

ROCE_PORT = 4791


def read_pcap(data):
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        captured, length = struct.unpack_from(order + "8xII", data, at)
        yield data[at + 16:at + 16 + captured], length, ""
        at += 16 + captured


def comment_of(data, order, at, end):
    while at + 4 <= end:
        code, length = struct.unpack_from(order + "HH", data, at)
        if code == 0:
            break
        if code == 1:
            return data[at + 4:at + 4 + length].decode(errors="replace")
        at += 4 + (length + 3) // 4 * 4
    return ""


def read_pcapng(data):
    order, at = "<", 0
    while at + 12 <= len(data):
        if data[at:at + 4] == b"\x0a\x0d\x0d\x0a":
            order = "<" if data[at + 8:at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
        kind, size = struct.unpack_from(order + "II", data, at)
        if size < 12 or at + size > len(data):
            sys.exit(f"pcapng: a block of {size} bytes at {at}")
        if struct.unpack_from(order + "I", data, at + size - 4)[0] != size:
            sys.exit(f"pcapng: the two lengths of the block at {at} differ")
        if kind == 6:
            captured, length = struct.unpack_from(order + "20xII", data, at)
            begin = at + 28
            options = begin + (captured + 3) // 4 * 4
            yield data[begin:begin + captured], length, comment_of(data, order, options, at + size - 4)
        at += size


def frames(path):
    with open(path, "rb") as f:
        data = f.read()
    return read_pcapng(data) if data[:4] == b"\x0a\x0d\x0d\x0a" else read_pcap(data)


def roce_datagram(frame):
    """The IP datagram of a RoCEv2 frame, without Ethernet padding; None for any other frame."""
    at = 14
    kind = frame[12:14]
    if kind == b"\x81\x00":
        kind, at = frame[16:18], 18
    ip = frame[at:]
    if kind == b"\x08\x00" and len(ip) >= 28 and ip[9] == 17:
        total, head = struct.unpack_from(">H", ip, 2)[0], (ip[0] & 15) * 4
    elif kind == b"\x86\xdd" and len(ip) >= 48 and ip[6] == 17:
        total, head = 40 + struct.unpack_from(">H", ip, 4)[0], 40
    else:
        return None
    if struct.unpack_from(">H", ip, head + 2)[0] != ROCE_PORT:
        return None
    return ip[:total]


def icrc_matches(ip):
    m = bytearray(ip[:-4])
    if ip[0] >> 4 == 4:
        udp = 20
        m[1] = m[8] = m[10] = m[11] = 0xFF                      # TOS, TTL, header checksum
    else:
        udp = 40
        m[0] |= 0x0F                                            # traffic class, flow label
        m[1] = m[2] = m[3] = m[7] = 0xFF                        # ..., hop limit
    m[udp + 6] = m[udp + 7] = m[udp + 8 + 4] = 0xFF             # UDP checksum; FECN, BECN and 6 reserved bits
    return struct.pack("<I", zlib.crc32(bytes(8 * [0xFF]) + m)) == ip[-4:]


def icrc(paths):
    bad = total = 0
    for path in paths:
        for number, (frame, length, _) in enumerate(frames(path), 1):
            ip = roce_datagram(frame)
            if ip is None or len(frame) < length:
                continue
            total += 1
            if not icrc_matches(ip):
                bad += 1
                print(f"{path}: frame {number}: ICRC does not match")
    print(f"{total} RoCEv2 frames, {bad} with a wrong ICRC")
    return 1 if bad or not total else 0


def roce_frames(path):
    kept = collections.Counter()
    for frame, length, comment in frames(path):
        ip = roce_datagram(frame)
        if ip is not None and not comment:
            kept[frame[:12] + ip] += 1
    return kept


def compare(path, others):
    ours, theirs = roce_frames(path), collections.Counter()
    for other in others:
        theirs += roce_frames(other)
    missing, extra = theirs - ours, ours - theirs
    print(f"{path}: {sum(ours.values())} frames; the others: {sum(theirs.values())}; "
          f"{sum(missing.values())} only there, {sum(extra.values())} only here")
    for what, some in (("only there", missing), ("only here", extra)):
        for frame in list(some)[:3]:
            print(f"  {what}: {frame[:72].hex()}...")
    return 1 if missing or extra or not ours else 0


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("icrc", "compare", "count"):
        sys.exit(__doc__)
    if sys.argv[1] == "icrc":
        return icrc(sys.argv[2:])
    if sys.argv[1] == "count":
        print(sum(roce_frames(sys.argv[2]).values()))
        return 0
    return compare(sys.argv[2], sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
