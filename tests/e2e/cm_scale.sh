#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user limit=300
# Thousands of rdma_cm connections, most of them ended well, some by killing a peer: nothing of them stays.
# [case37]
. "$(dirname "$0")/lib.sh"
cat >"$testlib_tmp/config.toml" <<'END'
[[device]]
name = "rocemu0"
addresses = ["10.203.0.1/24"]
[[device]]
name = "rocemu1"
addresses = ["10.203.0.2/24"]
END
fabric_up --config "$testlib_tmp/config.toml" || exit 1
ip0=10.203.0.1
out=$testlib_tmp

listeners() { status_value 'sum(x.get("cm_listeners", 0) for x in s["sessions"])'; }
more_listeners_than() { [ "$(listeners)" -gt "$1" ]; }
of_sessions() { status_value "sum(x.get('$1', 0) for x in s['sessions'])"; }
are() { [ "$(of_sessions "$1")" = "$2" ]; }
# serve VAR COMMAND...: the server's number; it lives until the script ends.
serve() {
    local before var=$1
    shift
    before=$(listeners)
    "$rocemu" run -- "$@" >"$out/server.out" 2>&1 </dev/null &
    printf -v "$var" %s $!
    wait_until 20 more_listeners_than "$before" || { cat "$out/server.out"; return 1; }
}
# What the daemon has of this machine: descriptors, and resident memory in MiB.
descriptors() { ls "/proc/$daemon_pid/fd" | wc -l; }
memory() { awk '/VmRSS/ { print int($2 / 1024) }' "/proc/$daemon_pid/status"; }

# A thousand connections made, then all of them ended, over one listener.
thousand() { attached cmtime -s $ip0 -c 1000 >"$out/cmtime" 2>&1 || { cat "$out/cmtime"; return 1; }; }
# A thousand at the same time: `ucmatose` ends them when all have been served. That they were there is seen in status.
at_once() {
    local server client most=0 now
    serve server ucmatose -b $ip0 -p 7472 -c 1000 -C 1 || return
    attached ucmatose -s $ip0 -p 7472 -c 1000 -C 1 >"$out/client" 2>&1 </dev/null &
    client=$!
    while kill -0 $client 2>/dev/null; do
        now=$(of_sessions qps) && [ "$now" -gt "$most" ] && most=$now
        sleep 0.1
    done 2>/dev/null
    wait $client && wait "$server" || { cat "$out/client" "$out/server.out"; return 1; }
    # The program itself waits for all of them; how many of the 2000 queue pairs a look meets depends on when it looks.
    echo "$most queue pairs were seen at once"
    [ "$most" -gt 1000 ]
}
rping_loop() {
    local i
    for ((i = 0; i < 20; i++)); do attached rping -c -a $ip0 -p 7180 -C 2 || return; done
}
# Clients that are killed with their connections open; the server sees each of them go.
killed() {
    local i pid
    for ((i = 0; i < 5; i++)); do
        "$rocemu" run -- rping -c -a $ip0 -p 7180 -C 100000000 >"$out/killed" 2>&1 </dev/null &
        pid=$!
        wait_until 20 are qps 2 || { cat "$out/killed"; return 1; }
        kill -9 $pid
        wait_until 20 are qps 0 || return
    done
}
# A server of a thousand connections that is killed: its clients are told, and end.
killed_server() {
    local server client
    serve server cmtime -b $ip0 -p 7999 || return
    "$rocemu" run -- cmtime -s $ip0 -p 7999 -c 1000 >"$out/client" 2>&1 </dev/null &
    client=$!
    wait_until 30 eval '[ "$(of_sessions qps)" -gt 100 ]' || return
    kill -9 "$server"
    end_process $client 2
    wait_until 30 are cm_ids "$1"
}

run_here server serve server_pid cmtime -b $ip0 || finish_tests
# The peak first: what comes later must find the same memory again.
run_test thousand-at-once 120 at_once
run_test thousand-1 90 thousand
at_first="$(descriptors) descriptors, $(memory) MiB"
fds=$(descriptors) mib=$(memory)
# 5,000 connections in all with ROCEMU_FULL=1.
for i in 2 ${ROCEMU_FULL:+3 4}; do run_test thousand-$i 90 thousand; done
run_here rping-server serve rping_pid rping -s -P -a $ip0 -p 7180 || finish_tests
ids=$(of_sessions cm_ids)
run_test rping-loop 60 rping_loop
run_test killed-clients 60 killed
run_test killed-server 90 killed_server "$ids"

servers_only() { are qps 0 && are cm_ids "$ids"; }
small_again() { [ "$(descriptors)" -le $((fds + 12)) ] && [ "$(memory)" -le $((mib + 16)) ]; }
nothing_grew() {
    local rc
    wait_until 10 small_again
    rc=$?
    echo "$at_first at first, now $(descriptors) descriptors, $(memory) MiB"
    return $rc
}
run_test nothing-of-connections-left 60 wait_until 30 servers_only
run_test nothing-grew 30 nothing_grew
end_process "$server_pid"
end_process "$rping_pid"
nothing_left() { are qps 0 && are cm_ids 0; }
run_test nothing-left 30 wait_until 20 nothing_left
run_here daemon-ends-cleanly fabric_down
finish_tests
