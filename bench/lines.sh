#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# lines.sh [ROUNDS]: figures that are no matter of bandwidth, each beside what it is compared with in the same round, and
# their medians: 64 KiB messages of eight queue pairs over a link that loses one frame in a hundred, against a link that
# loses none; the latency of 8 bytes against UCX over kernel TCP; the CPU time of a daemon whose queue pairs are connected
# and idle. Gates nothing. See lib.sh for the environment.
set -uo pipefail
# shellcheck source=bench/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
rounds=${1:-3}
# cpu_ns: what the daemon's threads have used.
cpu_ns() { cat /proc/$daemon/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f", sum }'; }
quiet() {
    local before
    before=$(cpu_ns)
    sleep 1
    [ $(($(cpu_ns) - before)) -lt 300000000 ]
}

# lossy PROGRAM: its bandwidth without and with loss, in Gbit/s.
lossy() {
    daemon_up auto
    local without
    without=$(measure 4 "$1" --report_gbits -s 65536 -q 8 -D 1)
    for nic in rocemu0 rocemu1; do "$build/apps/rocemu" impair $nic --drop 10000ppm >/dev/null || return; done
    echo "$without $(measure 4 "$1" --report_gbits -s 65536 -q 8 -D 1)"
    daemon_down
}
# ucx: half a round trip of 8 bytes, microseconds.
ucx() {
    port=$((port + 1))
    UCX_TLS=tcp UCX_NET_DEVICES=lo "${prefix[@]}" ucx_perftest -p $port >/dev/null 2>&1 &
    server=$!
    sleep 0.5
    UCX_TLS=tcp UCX_NET_DEVICES=lo timeout 60 "${prefix[@]}" ucx_perftest -p $port -t tag_lat -s 8 -n 20000 127.0.0.1 \
        >"$state/ucx" 2>&1
    kill $server 2>/dev/null
    wait $server 2>/dev/null
    awk '/^Final:/ { print $3 + 0 }' "$state/ucx"
}
latency() {
    daemon_up auto
    echo "$(measure 5 ib_send_lat -s 8 -n 20000) $(ucx)"
    daemon_down
}
# idle: percent of a core that the daemon uses with 128 connected queue pairs a side; what was posted has ended (WRITEs,
# whose programs are then stopped).
idle() {
    daemon_up auto
    serve ib_write_bw -q 128 -D 20
    "$build/apps/rocemu" run -- ib_write_bw -q 128 -D 20 -F -p $port -d rocemu1 127.0.0.1 >/dev/null 2>&1 </dev/null &
    local client=$! before after
    for _ in $(seq 100); do "$build/apps/rocemu" status | grep -Eq '^ +0 .* 256$' && break; sleep 0.1; done
    sleep 1
    kill -STOP $server $client
    for _ in $(seq 20); do quiet && break; done
    before=$(cpu_ns)
    sleep 4
    after=$(cpu_ns)
    "$build/apps/rocemu" status | awk '$1 == "0" && NF == 5 { qps = $5 } END { printf "%d ", qps }'
    awk -v n=$((after - before)) 'BEGIN { printf "%.2f\n", n / 4e7 }'
    kill -KILL $server $client
    wait $server $client 2>/dev/null
    daemon_down
}
for ((i = 0; i < rounds; i++)); do
    "${prefix[@]}" "$yardsticks" cores >>"$state/cores"
    lossy ib_send_bw >>"$state/loss.send"
    lossy ib_write_bw >>"$state/loss.write"
    latency >>"$state/latency"
    idle >>"$state/idle"
done
python3 - "$state" <<'PY'
import statistics, sys
def rows(name): return [[float(x) for x in line.split()] for line in open(f"{sys.argv[1]}/{name}") if line.strip()]
def ratio(name, what, unit, invert=False):
    r = [v for v in rows(name) if len(v) == 2 and v[0] > 0 and v[1] > 0]
    if not r: return print(f"{what}: not measured")
    ratios = [(b / a) if invert else (a / b) for a, b in r]
    print(f"{what}: {statistics.median(v[0] for v in r):.2f} {unit}, {statistics.median(v[1] for v in r):.2f} {unit}, "
          f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
ratio("loss.send", "send 64 KiB, 8 QPs: no loss, 1 % loss", "Gbit/s", True)
ratio("loss.write", "write 64 KiB, 8 QPs: no loss, 1 % loss", "Gbit/s", True)
ratio("latency", "send 8 B, half a round trip: rocemu, UCX over TCP", "us")
print("round trip between two processors, ns, in each round:", ", ".join(f"{r[0]:.0f}" for r in rows("cores")))
for qps, share in rows("idle"): print(f"daemon with {qps:.0f} connected, idle queue pairs: {share} % of a core")
PY
