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
out=$testlib_tmp

of_sessions() { status_value "sum(x.get('$1', 0) for x in s['sessions'])"; }
are() { [ "$(of_sessions "$1")" = "$2" ]; }
# keep VAR COMMAND...: a server that lives until the script ends; its number.
keep() {
    serve "${@:2}" && printf -v "$1" %s "$server"
}
# What the daemon has of this machine: descriptors, and resident memory in MiB.
descriptors() { ls "/proc/$daemon_pid/fd" | wc -l; }
memory() { awk '/VmRSS/ { print int($2 / 1024) }' "/proc/$daemon_pid/status"; }

# A thousand connections made, then all of them ended, over one listener.
thousand() { attached cmtime -s $server_ip -c 1000 >"$out/cmtime" 2>&1 || { cat "$out/cmtime"; return 1; }; }
# A thousand at the same time: `ucmatose` ends them when all have been served. That they were there is seen in status.
at_once() {
    local client most=0 now
    serve ucmatose -b $server_ip -p 7472 -c 1000 -C 1 || return
    attached ucmatose -s $server_ip -p 7472 -c 1000 -C 1 >"$out/client" 2>&1 </dev/null &
    client=$!
    while kill -0 $client 2>/dev/null; do
        now=$(of_sessions qps) && [ "$now" -gt "$most" ] && most=$now
        sleep 0.1
    done 2>/dev/null
    wait $client && server_ends || { cat "$out/client"; return 1; }
    # The program itself waits for all of them; how many of the 2000 queue pairs a look meets depends on when it looks.
    echo "$most queue pairs were seen at once"
    [ "$most" -gt 1000 ]
}
rping_loop() {
    local i
    for ((i = 0; i < 20; i++)); do attached rping -c -a $server_ip -p 7180 -C 2 || return; done
}
# Clients that are killed with their connections open; the server sees each of them go.
killed() {
    local i pid
    for ((i = 0; i < 5; i++)); do
        "$rocemu" run -- rping -c -a $server_ip -p 7180 -C 100000000 >"$out/killed" 2>&1 </dev/null &
        pid=$!
        wait_until 20 are qps 2 || { cat "$out/killed"; return 1; }
        kill -9 $pid
        wait_until 20 are qps 0 || return
    done
}
# A server of a thousand connections that is killed: its clients are told, and end.
killed_server() {
    local client
    serve cmtime -b $server_ip -p 7999 || return
    "$rocemu" run -- cmtime -s $server_ip -p 7999 -c 1000 >"$out/client" 2>&1 </dev/null &
    client=$!
    wait_until 30 eval '[ "$(of_sessions qps)" -gt 100 ]' || return
    kill -9 "$server"
    end_process $client 2
    wait_until 30 are cm_ids "$1"
}

run_here server keep server_pid cmtime -b $server_ip || finish_tests
# The peak first: what comes later must find the same memory again.
run_test thousand-at-once 240 at_once
at_first="$(descriptors) descriptors, $(memory) MiB"
fds=$(descriptors) mib=$(memory)
# More than 5,000 connections in all with ROCEMU_FULL=1.
for i in 1 ${ROCEMU_FULL:+2 3 4}; do run_test thousand-$i 90 thousand; done
run_here rping-server keep rping_pid rping -s -P -a $server_ip -p 7180 || finish_tests
ids=$(of_sessions cm_ids)
run_test rping-loop 60 rping_loop
run_test killed-clients 60 killed
run_test killed-server 90 killed_server "$ids"

# Nothing of the connection manager is left over but N ports: of the servers.
manager_has() { [ "$(status_value '(s["cm"]["connections"], s["cm"]["bindings"])')" = "(0, $1)" ]; }
servers_only() { are qps 0 && are cm_ids "$ids" && manager_has 2; }
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
nothing_left() { are qps 0 && are cm_ids 0 && manager_has 0; }
run_test nothing-left 30 wait_until 20 nothing_left
run_here daemon-ends-cleanly fabric_down
finish_tests
