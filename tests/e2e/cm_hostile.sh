#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user asan limit=200
# Programs that misuse the rdma_cm device, beside honest ones that connect all the while: nothing is taken from these,
# what is not allowed is refused, and the daemon lives on.
. "$(dirname "$0")/lib.sh"
seconds=${ROCEMU_HOSTILE_SECONDS:-5}
# Shares that are used up quickly, so that they are tried with each hostile program.
printf '%s\n' '[limits]' 'max_channels = 32' 'max_cm_ids = 1000' >"$testlib_tmp/config.toml"
fabric_up --config "$testlib_tmp/config.toml" || exit 1
ip0=10.203.0.1
port=7174

listening() { [ "$(status_value 'sum(x.get("cm_listeners", 0) for x in s["sessions"])')" = "$1" ]; }
serve() {
    attached rping -s -P -a $ip0 -p $port >"$testlib_tmp/server.out" 2>&1 </dev/null &
    server=$!
    wait_until 20 listening 1
}
siege() {
    local hostile=() i rounds=0 rc=0
    for i in 1 2 3; do
        attached "$ROCEMU_BUILD/tests/e2e/cm_hostile" $ip0 $port "$seconds" $i >"$testlib_tmp/hostile.$i" 2>&1 </dev/null &
        hostile+=($!)
    done
    while kill -0 "${hostile[@]}" 2>/dev/null; do
        attached rping -c -a $ip0 -p $port -C 20 -v >"$testlib_tmp/honest" 2>&1 || { cat "$testlib_tmp/honest"; rc=1; }
        [ "$(grep -c 'ping data' "$testlib_tmp/honest")" = 20 ] || rc=1
        rounds=$((rounds + 1))
    done
    for i in 1 2 3; do
        wait "${hostile[i - 1]}" || { echo "hostile program $i: exit code $?"; rc=1; }
        cat "$testlib_tmp/hostile.$i"
    done
    echo "$rounds honest programs"
    kill -0 "$server" || { echo "the honest server is gone"; cat "$testlib_tmp/server.out"; rc=1; }
    grep -E 'AddressSanitizer|runtime error' "$daemon_log" && rc=1
    return $rc
}
server_only() { [ "$(status_value 'sum(x.get("cm_ids", 0) + x.get("qps", 0) for x in s["sessions"])')" = 1 ]; }

run_here server serve || finish_tests
run_test siege $((seconds + 90)) siege
run_test nothing-left 60 wait_until 30 server_only
end_process "$server"
run_here daemon-ends-cleanly fabric_down
finish_tests
