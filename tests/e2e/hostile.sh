#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: asan limit=300
# 64 hostile processes that speak the shared-memory ABI directly, with fixed seeds, while an honest pair works. The
# daemon is the ASan+UBSan build: a report ends it, and the test fails.
. "$(dirname "$0")/lib.sh"
seconds=${ROCEMU_HOSTILE_SECONDS:-60}

honest() {
    local end=$((SECONDS + seconds)) rounds=0
    while [ $SECONDS -lt $end ]; do
        attached "$ROCEMU_BUILD/tests/e2e/check_bytes" rocemu0 rocemu1 $((rounds + 1)) || return
        rounds=$((rounds + 1))
    done
    echo "$rounds honest rounds"
    [ $rounds -gt 0 ]
}
siege() {
    local hostile rc=0
    "$ROCEMU_BUILD/tests/e2e/hostile" --socket "$ROCEMU_SOCKET" --processes 64 --seconds "$seconds" --seed 1 &
    hostile=$!
    honest || rc=1
    wait $hostile || { echo "the hostile program itself failed"; rc=1; }
    kill -0 "$daemon_pid" || { echo "the daemon is dead:"; tail -n 60 "$daemon_log"; return 1; }
    grep -E 'AddressSanitizer|runtime error' "$daemon_log" && rc=1
    return $rc
}
nothing_left() { wait_until 30 eval '[ "$(status_value "len([x for x in s[\"sessions\"] if not x.get(\"admin\")])")" = 0 ]' || { "$rocemu" status; return 1; }; }
fabric_up || exit 1
run_test siege $((seconds + 120)) siege
run_test nothing-left 60 nothing_left
run_here daemon-ends-cleanly fabric_down
finish_tests
