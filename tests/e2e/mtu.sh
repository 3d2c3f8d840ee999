#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user limit=200
# [case32] MTUs of the interface, each with sizes around the path MTUs and with 8 MiB: the bytes arrive. What the port says
# is the largest path MTU that fits, and a larger one is refused. The fabric has frames for 4200 at most: 9000, and an
# MTU that changes, are in tests/netns/changes.sh.
. "$(dirname "$0")/lib.sh"
declare -A active=([352]=256 [1500]=1024 [2200]=2048 [4200]=4096)
i=0
for mtu in 352 1500 2200 4200; do
    for side in a b; do
        i=$((i + 1))
        printf '%s\n' '[[device]]' "name = \"m$mtu$side\"" "addresses = [\"10.203.0.$i/24\"]" "mtu = $mtu"
    done
done >"$testlib_tmp/config.toml"
fabric_up --config "$testlib_tmp/config.toml" || exit 1

says_mtu() { says 1 "active_mtu:[[:space:]]*$2 " attached ibv_devinfo -d "m$1a"; }
# Byte by byte, by the program itself (-c), with the path MTU of the port and with the smallest.
sizes() {
    local size server_dev=m$1a client_dev=m$1b
    for size in 1023 1024 1025 4096 4097; do
        pair ibv_rc_pingpong -g 3 -m "${active[$1]}" -c -s $size -n 20 && pair ibv_rc_pingpong -g 3 -m 256 -c -s $size -n 5 || return
    done
    pair ibv_rc_pingpong -g 3 -m "${active[$1]}" -c -s 8388608 -n 2
}
# A server alone gives its QP the path MTU only when a client comes: that is refused on both sides.
refused() {
    local server_dev=m$1a client_dev=m$1b
    pair ibv_rc_pingpong -g 3 -m "$2" -n 5 >"$testlib_tmp/refused" 2>&1
    local rc=$?
    cat "$testlib_tmp/refused"
    [ $rc != 0 ] && grep -q 'Failed to modify QP to RTR' "$testlib_tmp/refused"
}
for mtu in 352 1500 2200 4200; do
    run_test $mtu-active-mtu 20 says_mtu $mtu ${active[$mtu]}
    case $mtu in 1500 | 4200) run_test $mtu-sizes 120 sizes $mtu ;; esac
done
run_test 1500-refuses-2048 30 refused 1500 2048
run_test 1500-refuses-4096 30 refused 1500 4096
run_test 2200-refuses-4096 30 refused 2200 4096
run_here daemon-ends-cleanly fabric_down
finish_tests
