#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user root asan limit=300
# The agent: payload moves where process_vm is refused, and `rocemu status` says by which path.
. "$(dirname "$0")/lib.sh"
check_bytes=$ROCEMU_BUILD/tests/e2e/check_bytes

agent_bytes() { "$rocemu" counters --json | python3 -c '
import json, sys
print(sum(d["payload_agent_bytes"] for d in json.load(sys.stdin).values()))'; }

path_is_agent() {
    case $(status_value '[x["payload_path"] for x in s["sessions"] if not x.get("admin")]') in *agent*) ;; *) return 1 ;; esac
}

# by_agent COMMAND...: runs it, and wants that status names the agent while it is attached and that bytes went that way.
# The command stays until its standard input ends (check_bytes --hold).
by_agent() {
    local before after seen=none pid hold input rc
    before=$(agent_bytes)
    mkfifo "$testlib_tmp/hold"
    exec {hold}<>"$testlib_tmp/hold" {input}<"$testlib_tmp/hold"
    rm "$testlib_tmp/hold"
    "$@" <&"$input" {input}<&- {hold}>&- &
    pid=$!
    exec {input}<&-
    if wait_until 60 path_is_agent; then seen=agent; fi
    exec {hold}>&-
    wait $pid
    rc=$?
    after=$(agent_bytes)
    echo "exit code $rc; bytes by the agent: $before -> $after; status said: $seen"
    [ $rc = 0 ] && [ "$after" -gt "$before" ] && [ $seen = agent ]
}

fabric_up || exit 1
if [ "$(id -u)" = 0 ]; then skip_test "${testlib_prefix}undumpable" "root may look into every process"
else run_test undumpable 120 by_agent attached "$check_bytes" --hold --undumpable rocemu0 rocemu1 7; fi
run_here daemon-ends-cleanly fabric_down

# A daemon of one ordinary user, a client of another.
other_uid() {
    local dir=$testlib_tmp/shared daemon
    install -d -m 755 -o 65534 -g 65534 "$dir"
    cat >"$dir/open.toml" <<TOML
[daemon]
socket_mode = 0o666
TOML
    export ROCEMU_SOCKET=$dir/rocemud.sock
    start_daemon daemon "$dir.log" setpriv --reuid=65534 --regid=65534 --clear-groups -- \
        --config "$dir/open.toml" --socket "$ROCEMU_SOCKET" || return
    local rc=0
    by_agent setpriv --reuid=65533 --regid=65533 --clear-groups "$rocemu" run -- "$check_bytes" --hold rocemu0 rocemu1 8 || rc=1
    end_process "$daemon"
    return $rc
}
if [ "$(id -u)" != 0 ]; then skip_test "${testlib_prefix}other-uid" "needs root, to become two ordinary users"
else run_test other-uid 120 other_uid; fi
forced() {
    printf '[daemon]\npayload = "agent"\n' >"$testlib_tmp/agent.toml"
    fabric_up --config "$testlib_tmp/agent.toml" || return
    by_agent attached "$check_bytes" --hold rocemu0 rocemu1 9 && pair ib_send_bw -F -n 1000 && pair ib_read_bw -F -n 1000 &&
        pair ib_write_bw -F -n 1000 -q 8 && fabric_down
}
run_test forced-by-configuration 180 forced
finish_tests
