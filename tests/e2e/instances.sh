#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user limit=120
# [case39] Several daemons on one host, each with its own fabric; and a daemon and its programs in a container of an
# ordinary user: user, mount, PID and network namespaces, no capabilities outside, no huge pages, no kernel module.
. "$(dirname "$0")/lib.sh"
fabric_up || exit 1

# A second one beside the first: programs of both at the same time, each sees its own daemon.
second() {
    local pid first rc
    start_daemon pid "$testlib_tmp/second.log" --socket "$testlib_tmp/second.sock" || return
    attached ib_send_bw -d rocemu0 -p 18701 -F -n 2000 >"$testlib_tmp/first.server" 2>&1 </dev/null &
    first=$!
    wait_until 20 listens 18701
    ROCEMU_SOCKET=$testlib_tmp/second.sock pair ibv_rc_pingpong -g 3 -c -n 200
    rc=$?
    attached ib_send_bw -d rocemu1 -p 18701 -F -n 2000 127.0.0.1 && wait $first || rc=1
    "$rocemu" status --socket "$testlib_tmp/second.sock" | grep -q rocemu1 || rc=1
    stop_daemon "$pid" "$testlib_tmp/second.log" || rc=1
    return $rc
}
# A second one on the same socket is told so, and the first goes on.
same_socket() {
    if "$rocemud" --socket "$ROCEMU_SOCKET" >"$testlib_tmp/refused" 2>&1; then return 1; fi
    cat "$testlib_tmp/refused"
    [ "$(grep -c . "$testlib_tmp/refused")" -ge 1 ] && pair ibv_rc_pingpong -g 3 -n 20
}

# In the container: root there is nobody outside. Everything starts inside it.
in_container() {
    unshare --user --map-root-user --mount --pid --fork --net --kill-child true 2>"$testlib_tmp/why" || { cat "$testlib_tmp/why"; return 77; }
    # shellcheck disable=SC2016
    unshare --user --map-root-user --mount --pid --fork --net --kill-child --mount-proc bash -c '
        ip link set lo up
        export ROCEMU_SOCKET=$1/inside.sock
        grep -q "^HugePages_Total: *0" /proc/meminfo && echo "no huge pages"
        "$2" --socket "$ROCEMU_SOCKET" >"$1/inside.log" 2>&1 </dev/null &
        for ((i = 0; i < 400; i++)); do "$3" status >/dev/null 2>&1 && break; sleep 0.05; done
        "$3" run -- ibv_rc_pingpong -d rocemu0 -g 3 -c -n 200 &
        server=$!
        for ((i = 0; i < 400; i++)); do grep -q ":4853 " /proc/net/tcp /proc/net/tcp6 && break; sleep 0.05; done
        "$3" run -- ibv_rc_pingpong -d rocemu1 -g 3 -c -n 200 127.0.0.1 && wait $server || { cat "$1/inside.log"; exit 1; }
        "$3" run -- rping -s -a 10.203.0.1 -C 5 &
        server=$!
        for ((i = 0; i < 400; i++)); do "$3" status --json | grep -q "\"cm_listeners\": [1-9]" && break; sleep 0.05; done
        "$3" run -- rping -c -a 10.203.0.1 -C 5 -v && wait $server' - "$testlib_tmp" "$rocemud" "$rocemu"
}
# A program in a container, its daemon outside: another user there, another PID, and no ptrace rights: the agent copies.
from_container() {
    unshare --user --map-root-user --mount --pid --fork --kill-child true 2>"$testlib_tmp/why" || { cat "$testlib_tmp/why"; return 77; }
    unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc "$rocemu" run -- "$ROCEMU_BUILD/tests/e2e/check_bytes" rocemu0 rocemu1 3
}

run_test second-daemon 60 second
run_test same-socket 30 same_socket
run_test in-a-container 60 in_container
run_test from-a-container 60 from_container
run_here daemon-ends-cleanly fabric_down
finish_tests
