#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# wire.sh [ROUNDS]: two daemons on af_packet, a veth pair between them, beside a plain forwarder of the same frames:
# dpdk-testpmd that only sends on one side, and only receives on the other. Path MTU 1024 and 4096, in the same rounds; at
# the end what an idle daemon costs whose port cannot sleep. Root, Debian's dpdk and perftest; gates nothing. Where others
# work on the machine: nice -n -20 bench/wire.sh (a forwarder never sleeps: with chrt it would keep the kernel from the
# packets).
set -uo pipefail
# shellcheck source=tests/netns/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tests/netns/lib.sh"
rounds=${1:-3}
seconds=2
# What carries a payload: Ethernet, IPv4, UDP, BTH, ICRC.
overhead=58

# testpmd NS SECONDS LCORE OPTION...: on this end of the wire, with slots as rocemud's own. LCORE (0, 1) does not forward,
# the other one does.
testpmd() {
    local ns=$1 time=$2 main=$3
    shift 3
    ip netns exec "$ns" timeout -s INT "$time" dpdk-testpmd --no-huge --no-shconf -m 256 --no-pci \
        --no-telemetry -l 0,1 --main-lcore "$main" --vdev net_af_packet0,iface=wire0,framesz=8192,blocksz=65536,framecnt=512 -- \
        --mbuf-size=8900 --total-num-mbufs=8192 --auto-start --stats-period 1 "$@" </dev/null
}
# forwarder PAYLOAD: Gbit/s of payload, as received: the best second of it, the first and the last are not whole.
forwarder() {
    testpmd "$ns_b" $((seconds + 4)) 1 --forward-mode=rxonly >"$testlib_tmp/rx" 2>&1 &
    local receiver=$!
    sleep 1.5
    testpmd "$ns_a" $((seconds + 1)) 0 --forward-mode=txonly --txpkts=$(($1 + overhead)) >"$testlib_tmp/tx" 2>&1
    wait $receiver
    awk -v p="$1" '/Rx-pps:/ && $2 > best { best = $2 } END { printf "%.2f", best * p * 8e-9 }' "$testlib_tmp/rx"
}
# measured PROGRAM: Gbit/s of payload.
measured() {
    daemons_up >/dev/null || return
    pair "$1" -F --report_gbits -s 65536 -D $seconds -x @GID@ >"$testlib_tmp/pair" 2>&1 || cat "$testlib_tmp/pair" >&2
    awk '/^ *#bytes/ { header = 1; next } header && NF >= 4 { printf "%.2f", $4; exit }' "$testlib_tmp/pair"
    daemons_down
}
# cpu_ns PID: what its threads have used.
cpu_ns() { cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f", sum }'; }
quiet() {
    local before
    before=$(cpu_ns "$daemon_a")
    sleep 1
    [ $(($(cpu_ns "$daemon_a") - before)) -lt 300000000 ]
}
# idle: percent of a core of either daemon with 128 connected queue pairs, nothing under way.
idle() {
    local port gid_a gid_b before_a before_b
    daemons_up >/dev/null || return
    free_port "$ns_b"
    gid_a=$(gid_of on_a $ip_a) gid_b=$(gid_of on_b $ip_b)
    on_b ib_write_bw -d rocemu0 -F -q 128 -D 30 -x "$gid_b" -p "$port" >"$testlib_tmp/server" 2>&1 </dev/null &
    wait_until 20 listens "$port" "$ns_b"
    on_a ib_write_bw -d rocemu0 -F -q 128 -D 30 -x "$gid_a" -p "$port" $ip_b >"$testlib_tmp/client" 2>&1 </dev/null &
    sleep 4
    local programs='' p me=$BASHPID
    for p in $(descendants $me); do
        [ "$(cat "/proc/$p/comm" 2>/dev/null)" = ib_write_bw ] && programs+=" $p"
    done
    # shellcheck disable=SC2086
    kill -STOP $programs
    wait_until 30 quiet  # what was posted has ended
    before_a=$(cpu_ns "$daemon_a") before_b=$(cpu_ns "$daemon_b")
    sleep 4
    awk -v a=$(($(cpu_ns "$daemon_a") - before_a)) -v b=$(($(cpu_ns "$daemon_b") - before_b)) \
        'BEGIN { printf "%.2f and %.2f", a / 4e7, b / 4e7 }'
    # shellcheck disable=SC2086
    kill -KILL $programs
    daemons_down
}
net_up 1500 || exit 1
echo "Two daemons, af_packet on veth; kernel $(uname -r), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg); Gbit/s of payload, medians of $rounds rounds"
for ((i = 0; i < rounds; i++)); do
    for payload in 1024 4096; do
        mtu=$((payload == 1024 ? 1500 : 4200))
        for ns in "$ns_a" "$ns_b"; do ip -n "$ns" link set wire0 mtu $mtu; done
        echo "$payload $(forwarder $payload) $(measured ib_write_bw) $(measured ib_send_bw) $(measured ib_read_bw)"
    done
done | tee "$testlib_tmp/rows" | sed 's/^/  round: /'
python3 "$(dirname "${BASH_SOURCE[0]}")/beside_forwarder.py" "$testlib_tmp/rows"
echo "idle daemons with 128 connected queue pairs each, % of a core: $(idle)"
