#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# fabric.sh [ROUNDS [PAYLOAD...]]: Debian's perftest through the embedded fabric with each value of daemon.payload in turn
# (default: auto pull), beside a memcpy+CRC roofline and kernel TCP over loopback measured in the same rounds. Prints
# medians, ratios, spread and the path that carried the bytes; the same as JSON in $ROCEMU_BENCH_JSON if that is set.
# Gates nothing. Needs a build with -Dbench=true. See lib.sh for the environment.
set -uo pipefail
# shellcheck source=bench/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
rounds=${1:-3}
shift $(($# > 0))
payloads=("$@")
[ ${#payloads[@]} -gt 0 ] || payloads=(auto pull)
shared=$(mktemp "/dev/shm/rocemu-bench.XXXXXX") || exit 1
truncate -s 64M "$shared"
trap 'finish; rm -f "$shared"' EXIT
# paths: which paths have carried bytes since the daemon started.
paths() {
    "$build/apps/rocemu" counters --json | python3 -c '
import json, sys
total = {}
for device in json.load(sys.stdin).values():
    for name, value in device.items(): total[name] = total.get(name, 0) + value
print("+".join(n for n in ("captured", "deferred", "mapped", "process_vm", "agent") if total[f"payload_{n}_bytes"] > 1 << 20))'
}
# name|column|program and arguments
cases=(
    "send 8 B, M/s|5|ib_send_bw --report_gbits -s 8 -D 1"
    "send 8 B, inline, M/s|5|ib_send_bw --report_gbits -s 8 -I 8 -D 1"
    "write 8 B, M/s|5|ib_write_bw --report_gbits -s 8 -D 1"
    "write 8 B, shared, M/s|5|ib_write_bw --report_gbits -s 8 -D 1 --mmap=$shared"
    "write 4 KiB|4|ib_write_bw --report_gbits -s 4096 -D 1"
    "write 64 KiB|4|ib_write_bw --report_gbits -s 65536 -D 1"
    "write 1 MiB|4|ib_write_bw --report_gbits -s 1048576 -D 1"
    "send 64 KiB|4|ib_send_bw --report_gbits -s 65536 -D 1"
    "read 64 KiB|4|ib_read_bw --report_gbits -s 65536 -D 1"
    "send 64 KiB, shared|4|ib_send_bw --report_gbits -s 65536 -D 1 --mmap=$shared"
    "write 64 KiB, shared|4|ib_write_bw --report_gbits -s 65536 -D 1 --mmap=$shared"
    "read 64 KiB, shared|4|ib_read_bw --report_gbits -s 65536 -D 1 --mmap=$shared"
)
for ((i = 0; i < rounds; i++)); do
    "${prefix[@]}" "$yardsticks" roofline >>"$state/roofline"
    "${prefix[@]}" "$yardsticks" tcp >>"$state/tcp"
    "${prefix[@]}" "$yardsticks" cores >>"$state/cores"
    for payload in "${payloads[@]}"; do
        for c in "${!cases[@]}"; do
            daemon_up "$payload"
            IFS='|' read -r _ column command <<<"${cases[c]}"
            # shellcheck disable=SC2086 # words of a command
            measure "$column" $command >>"$state/$payload.$c"
            paths >"$state/$payload.$c.paths"
            daemon_down
        done
    done
done
{
    echo "rounds=$rounds kernel=$(uname -r) cpus=$(nproc) load=$(cut -d' ' -f1 /proc/loadavg)"
    grep -m1 'model name' /proc/cpuinfo
} >"$state/machine"
python3 - "$state" "${ROCEMU_BENCH_JSON:-}" "${payloads[*]}" "${cases[@]}" <<'PY'
import json, statistics, sys
state, out, payloads, cases = sys.argv[1], sys.argv[2], sys.argv[3].split(), sys.argv[4:]
def read(name):
    return [float(x) for x in open(f"{state}/{name}").read().split()]
roof, tcp = read("roofline"), read("tcp")
table = {"machine": open(f"{state}/machine").read().split("\n")[:-1], "roofline_gbps": statistics.median(roof),
         "tcp_gbps": statistics.median(tcp), "cores_ns": read("cores"), "cases": []}
print("Embedded fabric, one shard, path MTU 4096, Gbit/s;", "; ".join(table["machine"]))
print(f"{'':24} {'payload':9} {'median':>8} {'lowest':>8} {'highest':>8} {'of TCP':>8} {'of roof':>8}  paths")
for i, case in enumerate(cases):
    name, column, _ = case.split("|")
    for payload in payloads:
        v = read(f"{payload}.{i}")
        row = {"case": name, "payload": payload, "median": statistics.median(v), "lowest": min(v), "highest": max(v),
               "paths": open(f"{state}/{payload}.{i}.paths").read().strip()}
        ratios = f"{'':>8} {'':>8}"
        if column == "4":
            # Ratios within a round, then their median.
            row["of_tcp"] = statistics.median(a / b for a, b in zip(v, tcp))
            row["of_roofline"] = statistics.median(a / b for a, b in zip(v, roof))
            ratios = f"{row['of_tcp']:7.2f}x {100 * row['of_roofline']:7.0f}%"
        table["cases"].append(row)
        print(f"{name:24} {payload:9} {row['median']:8.2f} {row['lowest']:8.2f} {row['highest']:8.2f} {ratios}  {row['paths']}")
print(f"roofline {table['roofline_gbps']:.0f}: one core copying and summing 4096-byte payloads; "
      f"tcp {table['tcp_gbps']:.1f}: kernel TCP over loopback, 64 KiB writes.")
print("round trip between two processors, ns, in each round:", ", ".join(f"{ns:.0f}" for ns in table["cores_ns"]),
      "(near: up to about 150)")
if out:
    json.dump(table, open(out, "w"), indent=1)
PY
