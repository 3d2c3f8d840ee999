# SPDX-License-Identifier: BSD-3-Clause
# beside_forwarder.py ROWS: medians of "path MTU, plain forwarder, write, send, read" lines (Gbit/s), and of the ratios of a line.
import statistics
import sys

rows = [[float(x) for x in line.split()] for line in open(sys.argv[1]) if len(line.split()) == 5]
for payload in (1024, 4096):
    mine = [r for r in rows if r[0] == payload and r[1] > 0]
    if not mine:
        continue
    print(f"path MTU {payload}: plain forwarder {statistics.median(r[1] for r in mine):.2f}", end="")
    for i, name in ((2, "write"), (3, "send"), (4, "read")):
        ratios = [r[i] / r[1] for r in mine]
        print(f", {name} {statistics.median(r[i] for r in mine):.2f} ({statistics.median(ratios):.2f} of it)", end="")
    print()
