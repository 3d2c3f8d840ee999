#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user asan limit=240
# Raw packet QPs: perftest's raw_ethernet programs between two NICs of the fabric, which exchange nothing but frames.
. "$(dirname "$0")/lib.sh"
fabric_up || exit 1
mac_0=02:52:4f:00:00:01
mac_1=02:52:4f:00:00:02

# The server's rules and receives are there when the daemon has a QP of it in RTR: it sends nothing before.
# shellcheck disable=SC2317
served() { [ "$(status_value 'sum(q["qps"] for q in s["shards"])')" -gt 0 ]; }

# raw_pair PROGRAM ARG...: server on rocemu0, client on rocemu1.
# shellcheck disable=SC2317
raw_pair() {
    local program=$1 server rc out=$testlib_tmp/server.$BASHPID
    shift
    attached "$program" -F -d rocemu0 --server -B $mac_0 -E $mac_1 "$@" >"$out" 2>&1 </dev/null &
    server=$!
    wait_until 20 served || { echo "the server has no QP:"; cat "$out"; end_process $server; return 1; }
    sleep 0.5
    attached "$program" -F -d rocemu1 --client -B $mac_1 -E $mac_0 "$@"
    rc=$?
    if [ $rc != 0 ]; then echo "client: exit code $rc; server:"; end_process $server; cat "$out"; return 1; fi
    wait $server
    rc=$?
    [ $rc = 0 ] || { echo "server: exit code $rc:"; cat "$out"; return 1; }
}

run_test raw_ethernet_bw 60 raw_pair raw_ethernet_bw -n 1000 -s 1024
run_test raw_ethernet_bw-udp 60 raw_pair raw_ethernet_bw -n 1000 -s 512 -J 10.9.9.1 -j 10.9.9.1 -K 7000 -k 7000
run_test raw_ethernet_lat 60 raw_pair raw_ethernet_lat -n 500 -s 64
run_here daemon-ends-cleanly fabric_down
finish_tests
