#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user asan limit=300
# A program that is killed leaves nothing behind and disturbs nobody; a daemon that is killed hangs no program.
. "$(dirname "$0")/lib.sh"
sessions='sum(x.get("qps", 0) + x.get("mrs", 0) + x.get("cqs", 0) for x in s["sessions"] if not x.get("admin"))'

nothing_left() { [ "$(status_value "$sessions")" = 0 ] && [ "$(status_value 'len([x for x in s["sessions"] if not x.get("admin")])')" = 0 ]; }

# start_traffic: an endless ib_send_bw pair in the background: server_pid, client_pid.
start_traffic() {
    free_port
    # Not `attached`: the process that is killed must be the program, not a subshell that waits for it.
    "$rocemu" run -- ib_write_bw -F -d rocemu0 -p "$port" -D 60 >"$testlib_tmp/s.out" 2>&1 </dev/null &
    server_pid=$!
    wait_until 20 listens "$port" || return
    "$rocemu" run -- ib_write_bw -F -d rocemu1 -p "$port" -D 60 127.0.0.1 >"$testlib_tmp/c.out" 2>&1 </dev/null &
    client_pid=$!
    wait_until 20 eval '[ "$(status_value "sum(x.get(\"qps\", 0) for x in s[\"sessions\"])")" = 2 ]' || return
    sleep 1
}

killed_program() {
    start_traffic || return
    kill -9 "$client_pid"
    wait "$client_pid" 2>/dev/null
    # Others are served meanwhile.
    pair ib_send_bw -F -n 500 || return
    kill -9 "$server_pid" 2>/dev/null
    wait "$server_pid" 2>/dev/null
    wait_until 20 nothing_left || { "$rocemu" status; return 1; }
}

# ends_by_itself PID: within 20 s and not by a signal.
ends_by_itself() {
    local rc
    wait_until 20 eval "! kill -0 $1" || { echo "process $1 hangs"; cat "/proc/$1/wchan" "/proc/$1/stack" 2>/dev/null; end_process "$1"; return 1; }
    wait "$1"
    rc=$?
    echo "process $1 ended with $rc"
    [ $rc -lt 128 ]
}

killed_daemon() { # PROGRAM ARG...
    local bad=0
    fabric_up || return
    free_port
    attached "$1" -d rocemu0 -p "$port" "${@:2}" >"$testlib_tmp/s.out" 2>&1 </dev/null &
    server_pid=$!
    wait_until 20 listens "$port" || return
    attached "$1" -d rocemu1 -p "$port" "${@:2}" 127.0.0.1 >"$testlib_tmp/c.out" 2>&1 </dev/null &
    client_pid=$!
    wait_until 20 eval '[ "$(status_value "sum(x.get(\"qps\", 0) for x in s[\"sessions\"])")" = 2 ]' || return
    sleep 1
    kill -9 "$daemon_pid"
    wait "$daemon_pid" 2>/dev/null
    daemon_pid=
    ends_by_itself "$client_pid" || bad=1
    ends_by_itself "$server_pid" || bad=1
    tail -n 5 "$testlib_tmp/c.out" "$testlib_tmp/s.out"
    rm -f "$ROCEMU_SOCKET"
    return $bad
}

fabric_up || exit 1
for i in 1 2 3; do run_test killed-program-$i 90 killed_program; done
run_here daemon-ends-cleanly fabric_down
run_test killed-daemon-polling-send 60 killed_daemon ib_send_bw -F -D 60
run_test killed-daemon-polling-read 60 killed_daemon ib_read_bw -F -D 60
run_test killed-daemon-events 60 killed_daemon ib_send_bw -F -e -n 100000000
run_test killed-daemon-pingpong-events 60 killed_daemon ibv_rc_pingpong -g 3 -e -n 100000000
fatal_event() {
    fabric_up || return
    attached ibv_asyncwatch -d rocemu0 >"$testlib_tmp/async.out" 2>&1 </dev/null &
    local watch=$!
    wait_until 20 grep -q 'async event FD' "$testlib_tmp/async.out" || { cat "$testlib_tmp/async.out"; return 1; }
    kill -9 "$daemon_pid"; wait "$daemon_pid" 2>/dev/null; daemon_pid=
    wait_until 10 grep -qi 'fatal' "$testlib_tmp/async.out"
    local rc=$?
    cat "$testlib_tmp/async.out"
    end_process "$watch"
    return $rc
}
run_test device-fatal-event 40 fatal_event
finish_tests
