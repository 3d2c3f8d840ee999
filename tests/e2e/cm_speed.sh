#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user limit=300
# A connection by rdma_cm is as fast as one that perftest makes over TCP: path MTU, timeouts, depths and traffic class that
# come by another way are as good. Both in turn; the best of three is what each can do.
# [case37]
. "$(dirname "$0")/lib.sh"
fabric_up || exit 1

# Gbit/s of a run of 64 KiB WRITEs, 0 if it failed: its output is shown then.
gbits() {
    local out=$testlib_tmp/run
    "$@" >"$out" 2>&1 || { cat "$out" >&2; echo 0; return; }
    awk '$1 == 65536 { print $4; exit }' "$out"
}
plain() { pair ib_write_bw -F --report_gbits -n 1500 "$@"; }
with_cm() { perftest_cm both ib_write_bw -R -F --report_gbits -n 1500 "$@" --- ib_write_bw -R -F --report_gbits -n 1500 "$@" $server_ip; }
# as_fast PLAIN-ARGS --- CM-ARGS
as_fast() {
    local arguments=()
    while [ "$1" != --- ]; do arguments+=("$1"); shift; done
    shift
    for _ in 1 2 3; do echo "$(gbits plain "${arguments[@]}") $(gbits with_cm "$@")"; done | awk '
        { print "without -R", $1, "Gbit/s, with", $2; if ($1 > a) a = $1; if ($2 > b) b = $2 }
        END { print "best", a + 0, b + 0; exit !(NR == 3 && a > 0 && b > 0.6 * a) }'
}
run_test one-qp 90 as_fast ---
run_test 8-qps 90 as_fast -q 8 -n 200 --- -q 8 -n 200
run_test traffic-class 90 as_fast --- -T 106
run_here daemon-ends-cleanly fabric_down
finish_tests
