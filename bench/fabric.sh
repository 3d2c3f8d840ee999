#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# fabric.sh [ROUNDS]: ib_write_bw, ib_send_bw and ib_read_bw of Debian's perftest through the embedded fabric, beside a
# memcpy+CRC roofline and kernel TCP over loopback measured in the same rounds. Prints medians and ratios; gates nothing.
# Needs a build with -Dbench=true (ROCEMU_BUILD, default build/).
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${ROCEMU_BUILD:-$root/build}
rounds=${1:-3}
yardsticks=$build/bench/yardsticks
for need in "$build/apps/rocemud" "$build/apps/rocemu" "$yardsticks"; do
    [ -x "$need" ] || { echo "fabric.sh: $need is missing (meson setup build -Dbench=true)" >&2; exit 1; }
done
state=$(mktemp -d "${TMPDIR:-/tmp}/rocemu-bench.XXXXXX") || exit 1
export ROCEMU_SOCKET=$state/rocemud.sock
daemon=
finish() {
    [ -z "$daemon" ] || { kill "$daemon"; wait "$daemon"; } 2>/dev/null
    rm -rf "$state"
}
trap finish EXIT
mkfifo "$state/ready"
exec 6<>"$state/ready"
"$build/apps/rocemud" --ready-fd 6 >"$state/log" 2>&1 &
daemon=$!
read -r -t 20 -u 6 _ || { cat "$state/log" >&2; exit 1; }
exec 6>&-

port=$((20000 + RANDOM % 20000))
# gbps PROGRAM ARG...: what the client reports as average, in Gbit/s; 0 when it fails.
gbps() {
    port=$((port + 1))
    "$build/apps/rocemu" run -- "$@" -F -p $port -d rocemu0 --report_gbits >"$state/server" 2>&1 </dev/null &
    local server=$!
    for _ in $(seq 100); do grep -q waiting "$state/server" 2>/dev/null && break; sleep 0.05; done
    sleep 0.2
    timeout 60 "$build/apps/rocemu" run -- "$@" -F -p $port -d rocemu1 --report_gbits 127.0.0.1 >"$state/client" 2>&1 </dev/null
    wait $server 2>/dev/null
    awk '/^ *#bytes/ { header = 1; next } header && NF >= 4 { rate = $4 } END { print rate + 0 }' "$state/client"
}
names=("roofline" "tcp" "ib_write_bw 4 KiB" "ib_write_bw 64 KiB" "ib_write_bw 1 MiB" "ib_send_bw 64 KiB" "ib_read_bw 64 KiB")
for ((i = 0; i < rounds; i++)); do
    "$yardsticks" roofline >>"$state/0"
    "$yardsticks" tcp >>"$state/1"
    gbps ib_write_bw -s 4096 -D 1 >>"$state/2"
    gbps ib_write_bw -s 65536 -D 1 >>"$state/3"
    gbps ib_write_bw -s 1048576 -D 1 >>"$state/4"
    gbps ib_send_bw -s 65536 -D 1 >>"$state/5"
    gbps ib_read_bw -s 65536 -D 1 >>"$state/6"
done
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
roof=$(median "$state/0")
tcp=$(median "$state/1")
printf 'Embedded fabric, medians of %s rounds, one shard, path MTU 4096\n' "$rounds"
printf '%-20s %10s %12s %12s\n' "" "Gbit/s" "of roofline" "of TCP"
for i in "${!names[@]}"; do
    value=$(median "$state/$i")
    awk -v n="${names[i]}" -v v="$value" -v r="$roof" -v t="$tcp" 'BEGIN { printf "%-20s %10.2f %11.0f%% %11.2fx\n", n, v, 100 * v / r, v / t }'
done
echo "roofline: one core copying and summing 4096-byte payloads; tcp: kernel TCP over loopback, 64 KiB writes."
