#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: asan limit=400 (user: programs.sh)
# [case33] Unmodified programs over UC and UD through the embedded fabric, and every transport over every kind of address.
. "$(dirname "$0")/lib.sh"
fabric_up || exit 1

n=1000
slow=
case $ROCEMU_BUILD in *asan*) slow=1 n=100 ;; esac
# GID table: 0 1 are fe80::, 2 3 are IPv4; even ones are RoCE v1, odd ones v2. So 1 is v2 over IPv6.
for gid in 0 1 2 3; do
    for type in rc uc ud; do
        run_test pingpong-$type-gid$gid 60 pair ibv_${type}_pingpong -g $gid -c -n 200
    done
done
for type in uc ud; do run_test pingpong-$type-events 60 pair ibv_${type}_pingpong -g 3 -e; done
for type in UC UD; do
    run_test ib_send_bw-$type 60 pair ib_send_bw -F -c $type -n $n
    run_test ib_send_lat-$type 60 pair ib_send_lat -F -c $type -n $n
done
run_test ib_write_bw-UC 60 pair ib_write_bw -F -c UC -n $n
run_test ib_write_lat-UC 60 pair ib_write_lat -F -c UC -n $n
if [ -z "$slow" ]; then
    run_test ib_send_bw-UD-all-sizes 90 pair ib_send_bw -F -c UD -a -n 100
    run_test ib_send_bw-UC-all-sizes 90 pair ib_send_bw -F -c UC -a -n 20
    run_test ib_send_lat-UD-inline 60 pair ib_send_lat -F -c UD -I 64 -s 64 -n $n
fi
run_test nothing-left 20 test "$(status_value 'sum(x.get("qps", 0) + x.get("mrs", 0) for x in s["sessions"] if not x.get("admin"))')" = 0
run_here daemon-ends-cleanly fabric_down
finish_tests
