# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# What the end-to-end scripts share: one daemon with its embedded fabric on a socket of the script's own, and pairs of
# programs attached to it. Sourced after nothing; sources testlib.sh itself.
# shellcheck source=tests/support/testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/testlib.sh"
export ROCEMU_SOCKET=$testlib_tmp/rocemud.sock
daemon_log=$testlib_tmp/rocemud.log
daemon_pid=

# fabric_up [ROCEMUD ARG...]: starts the daemon of this script; its log is kept when it ends badly.
fabric_up() {
    start_daemon daemon_pid "$daemon_log" --socket "$ROCEMU_SOCKET" "$@" || return
    at_exit fabric_down
}

# fabric_down: ends it; fails if it did not end by itself with exit code 0. Only in the shell that ran fabric_up.
fabric_down() {
    [ -n "$daemon_pid" ] || return 0
    local pid=$daemon_pid
    daemon_pid=
    stop_daemon "$pid" "$daemon_log" 15
}

attached() { "$rocemu" run -- "$@"; }

# pair PROGRAM ARG...: the same program as server on rocemu0 and as client on rocemu1; both must exit 0. `@PORT@` and
# the devices are filled in; perftest takes -p for its port, the pingpongs too.
pair() {
    local port server rc out=$testlib_tmp/server.$BASHPID program=$1
    shift
    free_port
    attached "$program" -d rocemu0 -p "$port" "$@" >"$out" 2>&1 </dev/null &
    server=$!
    if ! wait_until 20 listens "$port"; then
        echo "the server does not listen:"; cat "$out"; end_process "$server"; return 1
    fi
    attached "$program" -d rocemu1 -p "$port" "$@" 127.0.0.1
    rc=$?
    if [ $rc != 0 ]; then echo "client: exit code $rc; server:"; end_process "$server"; cat "$out"; return 1; fi
    wait "$server"
    rc=$?
    if [ $rc != 0 ]; then echo "server: exit code $rc:"; cat "$out"; return 1; fi
}

# status_value EXPRESSION: a value of `rocemu status --json`, by a python expression over `s`.
status_value() {
    "$rocemu" status --json | python3 -c '
import json, sys
s = json.load(sys.stdin)
print(eval(sys.argv[1]))' "$1"
}
