# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# What the scripts here share: one daemon on a socket of the script's own, and a pair of perftest programs attached to it.
# $ROCEMU_BUILD (default build/); $ROCEMU_BENCH_PREFIX: in front of the daemon, every program measured and the yardsticks, for machines
# on which others work (for example "chrt -r 5").
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${ROCEMU_BUILD:-$root/build}
read -r -a prefix <<<"${ROCEMU_BENCH_PREFIX:-}"
yardsticks=$build/bench/yardsticks
for need in "$build/apps/rocemud" "$build/apps/rocemu" "$yardsticks"; do
    [ -x "$need" ] || { echo "$0: $need is missing (meson setup build -Dbench=true)" >&2; exit 1; }
done
state=$(mktemp -d "${TMPDIR:-/tmp}/rocemu-bench.XXXXXX") || exit 1
daemon=
# daemon_down: ends the daemon.
daemon_down() { [ -z "$daemon" ] || { kill "$daemon"; wait "$daemon"; } 2>/dev/null; daemon=; }
finish() { daemon_down; rm -rf "$state"; }
trap finish EXIT
export ROCEMU_SOCKET=$state/rocemud.sock
# daemon_up PAYLOAD
daemon_up() {
    rm -f "$state/ready"
    mkfifo "$state/ready"
    exec 6<>"$state/ready"
    printf '[daemon]\npayload = "%s"\n' "$1" >"$state/config.toml"
    "${prefix[@]}" "$build/apps/rocemud" --config "$state/config.toml" --ready-fd 6 >"$state/log" 2>&1 &
    daemon=$!
    read -r -t 20 -u 6 _ || { cat "$state/log" >&2; exit 1; }
    exec 6>&-
}

port=$((20000 + RANDOM % 20000))
server=
# serve PROGRAM ARG...: the server, until it listens; its process is $server.
serve() {
    port=$((port + 1))
    "${prefix[@]}" "$build/apps/rocemu" run -- "$@" -F -p $port -d rocemu0 >"$state/server" 2>&1 </dev/null &
    server=$!
    for _ in $(seq 100); do grep -q waiting "$state/server" 2>/dev/null && break; sleep 0.05; done
    sleep 0.2
}
# meet PROGRAM ARG...: its client, which leaves its report in $state/client.
meet() {
    timeout 60 "${prefix[@]}" "$build/apps/rocemu" run -- "$@" -F -p $port -d rocemu1 127.0.0.1 >"$state/client" 2>&1 </dev/null
}
# measure COLUMN PROGRAM ARG...: that column of what the client reports (bandwidth, 4: Gbit/s, 5: million messages a
# second; latency, 5: typical microseconds); 0 when it fails.
measure() {
    local column=$1
    shift
    serve "$@"
    meet "$@"
    wait $server 2>/dev/null
    awk -v c="$column" '/^ *#bytes/ { header = 1; next } header && NF >= 4 { rate = $c } END { print rate + 0 }' "$state/client"
}
