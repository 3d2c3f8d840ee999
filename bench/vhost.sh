#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vhost.sh [ROUNDS]: two daemons joined by vhost-user and virtio-user (the two files of configs/), beside a plain forwarder of
# the same frames over the same pair of ports: dpdk-testpmd that only sends on one side, and only receives on the other. Path
# MTU 1024 and 4096, 64 KiB messages, buffers in memory that the daemons map too, in the same rounds. Any user; Debian's dpdk
# and perftest; gates nothing. Where others work on the machine: chrt -r 5 bench/vhost.sh.
set -uo pipefail
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tests/e2e/lib.sh"
rounds=${1:-3}
seconds=2
overhead=58  # what carries a payload: Ethernet, IPv4, UDP, BTH, ICRC
link=$testlib_tmp/link.sock
shared=$(mktemp /dev/shm/rocemu-bench.XXXXXX) && truncate -s 64M "$shared" || exit 1

# testpmd SECONDS LCORE VDEV OPTION...: LCORE (0, 1) does not forward, the other one does.
testpmd() {
    local time=$1 main=$2 vdev=$3
    shift 3
    timeout -s INT "$time" dpdk-testpmd --no-huge --no-shconf -m 256 --no-pci --no-telemetry -l 0,1 --main-lcore "$main" \
        --vdev "$vdev" -- --mbuf-size=8900 --total-num-mbufs=8192 --auto-start --stats-period 1 "$@" </dev/null
}
# forwarder PAYLOAD: Gbit/s of payload, as received: the best second of it, the first and the last are not whole.
forwarder() {
    rm -f "$link"
    testpmd $((seconds + 5)) 1 "net_vhost0,iface=$link,queues=1" --forward-mode=rxonly >"$testlib_tmp/rx" 2>&1 &
    local receiver=$!
    wait_until 10 [ -S "$link" ]
    testpmd $((seconds + 2)) 0 "net_virtio_user0,path=$link,packed_vq=1,mrg_rxbuf=1,in_order=1" --forward-mode=txonly \
        --txpkts=$(($1 + overhead)) >"$testlib_tmp/tx" 2>&1
    wait $receiver
    awk -v p="$1" '/Rx-pps:/ && $2 > best { best = $2 } END { printf "%.2f", best * p * 8e-9 }' "$testlib_tmp/rx"
}
on() { ROCEMU_SOCKET=$testlib_tmp/$1.sock "$rocemu" "${@:2}"; }
active() { on a run -- ibv_devinfo | grep -q PORT_ACTIVE && on b run -- ibv_devinfo | grep -q PORT_ACTIVE; }
# measured PAYLOAD PROGRAM: Gbit/s of payload.
measured() {
    local side port server payload=$1
    shift
    rm -f "$link"
    for side in a b; do
        sed "s,/tmp/rocemu-link\.sock,$link," "$testlib_root/configs/two-daemons-$side.toml" >"$testlib_tmp/$side.toml"
        start_daemon $side "$testlib_tmp/$side.log" --config "$testlib_tmp/$side.toml" --socket "$testlib_tmp/$side.sock" >/dev/null || return
    done
    wait_until 20 active
    free_port
    set -- "$1" -F --report_gbits -s 65536 -m "$payload" -D $seconds --mmap="$shared" -p "$port"
    on a run -- "$@" >"$testlib_tmp/server" 2>&1 </dev/null &
    server=$!
    wait_until 20 listens "$port"
    on b run -- "$@" 127.0.0.1 >"$testlib_tmp/pair" 2>&1 </dev/null || cat "$testlib_tmp/pair" >&2
    wait $server
    awk '/^ *#bytes/ { header = 1; next } header && NF >= 4 { printf "%.2f", $4; exit }' "$testlib_tmp/pair"
    for side in a b; do stop_daemon "${!side}" "$testlib_tmp/$side.log" 15 >/dev/null; done
}
echo "Two daemons, vhost-user and virtio-user; kernel $(uname -r), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg); Gbit/s of payload, medians of $rounds rounds"
for ((i = 0; i < rounds; i++)); do
    for payload in 1024 4096; do
        echo "$payload $(forwarder $payload) $(measured $payload ib_write_bw) $(measured $payload ib_send_bw) $(measured $payload ib_read_bw)"
    done
done | tee "$testlib_tmp/rows" | sed 's/^/  round: /'
rm -f "$shared"
python3 "$(dirname "${BASH_SOURCE[0]}")/beside_forwarder.py" "$testlib_tmp/rows"
