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

# shellcheck source=tests/support/two_sides.sh
. "$testlib_root/tests/support/two_sides.sh"
server_run=("$rocemu" run --) client_run=("${server_run[@]}") client_host=()
server_view() { "$rocemu" "$1" --json; }
# The two default devices; TCP is the host's.
server_ns= wire= server_dev=rocemu0 client_dev=rocemu1 server_ip=10.203.0.1 client_ip=10.203.0.2 server_tcp=127.0.0.1

# pair PROGRAM ARG...: the same program as server on rocemu0 and as client on rocemu1; both must exit 0. The port and the
# devices are filled in; perftest takes -p for its port, the pingpongs too.
pair() { both_tcp "$1" -d $server_dev -p @PORT@ "${@:2}" --- "$1" -d $client_dev -p @PORT@ "${@:2}" $server_tcp; }

# status_value EXPRESSION: a value of `rocemu status --json`, by a python expression over `s`.
status_value() {
    "$rocemu" status --json | python3 -c '
import json, sys
s = json.load(sys.stdin)
print(eval(sys.argv[1]))' "$1"
}
