#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user asan limit=600
# librdmacm and its programs, unmodified, over the embedded fabric: rocemu0 (10.203.0.1) and rocemu1 (10.203.0.2).
# Each program's own exit code counts, and what it prints where it says more.
. "$(dirname "$0")/lib.sh"
fabric_up || exit 1
server_ip=10.203.0.1
client_ip=10.203.0.2

# listeners: how many rdma_cm ids listen, by `rocemu status`.
listeners() { status_value 'sum(x.get("cm_listeners", 0) for x in s["sessions"])'; }
more_listeners_than() { [ "$(listeners)" -gt "$1" ]; }

# both SERVER... --- CLIENT...: starts the server, waits until it listens, runs the client; both must exit 0. Their
# output is in $testlib_tmp/server.out and client.out.
both() {
    local server=() before pid rc
    while [ "$1" != --- ]; do server+=("$1"); shift; done
    shift
    before=$(listeners)
    attached "${server[@]}" >"$testlib_tmp/server.out" 2>&1 </dev/null &
    pid=$!
    if ! wait_until 20 more_listeners_than "$before"; then
        echo "the server does not listen:"; cat "$testlib_tmp/server.out"; end_process "$pid"; return 1
    fi
    attached "$@" >"$testlib_tmp/client.out" 2>&1 </dev/null
    rc=$?
    cat "$testlib_tmp/client.out"
    if [ $rc != 0 ]; then echo "client: exit code $rc; server:"; end_process "$pid"; cat "$testlib_tmp/server.out"; return 1; fi
    wait "$pid"
    rc=$?
    echo "server:"; cat "$testlib_tmp/server.out"
    [ $rc = 0 ] || { echo "server: exit code $rc"; return 1; }
}

rping_pair() { both rping -s -a "$1" "${@:3}" --- rping -c -a "$2" "${@:3}"; }

run_test rping 60 rping_pair $server_ip $server_ip -C 10 -v
run_test rping-any-address 60 rping_pair 0.0.0.0 $server_ip -C 10 -v
run_test rping-own-address 60 both rping -s -a $server_ip -C 3 -v --- rping -c -I $server_ip -a $server_ip -C 3 -v
run_test rping-64k 60 rping_pair $client_ip $client_ip -C 20 -v -S 65000
run_test ucmatose 60 both ucmatose -b $server_ip --- ucmatose -b $client_ip -s $server_ip
run_test ucmatose-50-connections 90 both ucmatose -b $server_ip -c 50 --- ucmatose -s $server_ip -c 50
run_test rdma_client 60 both rdma_server --- rdma_client -s $server_ip
run_test rstream 90 both rstream -b $server_ip -S 65536 -C 100 --- rstream -s $server_ip -S 65536 -C 100
run_test riostream 90 both riostream -b $server_ip -S 65536 -C 100 --- riostream -s $server_ip -S 65536 -C 100
nothing_left() { [ "$(status_value 'sum(x.get("qps", 0) + x.get("cm_ids", 0) for x in s["sessions"])')" = 0 ]; }
run_test nothing-left 30 wait_until 20 nothing_left
run_here daemon-ends-cleanly fabric_down
finish_tests
