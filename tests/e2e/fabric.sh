#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: asan limit=600 (user: programs.sh)
# Unmodified programs of Debian's packages over RC through the embedded fabric of one daemon.
. "$(dirname "$0")/lib.sh"
fabric_up || exit 1

# The GID table has, per address, a v1 and a v2 entry, link-local first: 0 1 are fe80::, 2 3 are IPv4.
gid=3
n=1000
# An instrumented daemon is several times slower: fewer iterations, and not every size.
slow=
case $ROCEMU_BUILD in *asan*) slow=1 n=100 ;; esac
run_test devices 20 attached ibv_devices
run_test devinfo 20 attached ibv_devinfo -v
run_test pingpong 60 pair ibv_rc_pingpong -g $gid
run_test pingpong-events 60 pair ibv_rc_pingpong -g $gid -e
run_test pingpong-validate 60 pair ibv_rc_pingpong -g $gid -c
run_test pingpong-1-byte 60 pair ibv_rc_pingpong -g $gid -s 1
run_test pingpong-1-MiB 90 pair ibv_rc_pingpong -g $gid -s 1048576 -n 100
[ -n "$slow" ] || run_test pingpong-10000 120 pair ibv_rc_pingpong -g $gid -n 10000
for mtu in 256 512 1024 2048 4096; do
    run_test pingpong-mtu-$mtu 60 pair ibv_rc_pingpong -g $gid -m $mtu -n $n
done
for op in send write read; do
    run_test ib_${op}_bw 60 pair ib_${op}_bw -F -n $n
    [ -n "$slow" ] || run_test ib_${op}_bw-all-sizes 120 pair ib_${op}_bw -F -a -n 100
    run_test ib_${op}_bw-8-qps 60 pair ib_${op}_bw -F -q 8 -n $n
    run_test ib_${op}_bw-both-ways 60 pair ib_${op}_bw -F -b -n $n
    run_test ib_${op}_bw-8-MiB 120 pair ib_${op}_bw -F -s 8388608 -n 20
    run_test ib_${op}_bw-duration 60 pair ib_${op}_bw -F -D 2
    run_test ib_${op}_lat 120 pair ib_${op}_lat -F -n $n
done
# perftest measures the processor's clock anew for each size, a third of a second a time: once is enough here (tests/netns has
# all of them).
[ -n "$slow" ] || run_test ib_send_lat-all-sizes 180 pair ib_send_lat -F -a -n 50
for op in send read; do run_test ib_${op}_bw-events 60 pair ib_${op}_bw -F -e -n $n; done
for op in send write; do run_test ib_${op}_bw-inline 60 pair ib_${op}_bw -F -I 64 -s 64 -n $n; done
run_test srq-pingpong 60 pair ibv_srq_pingpong -g $gid -n $n
run_test srq-pingpong-events 60 pair ibv_srq_pingpong -g $gid -e -n $n
run_test srq-pingpong-1-qp 60 pair ibv_srq_pingpong -g $gid -q 1 -s 1 -n $n
run_test ib_send_bw-srq 60 pair ib_send_bw -F --use-srq -n $n
run_test ib_send_bw-srq-4-qps 60 pair ib_send_bw -F --use-srq -q 4 -n $n
run_test ib_send_lat-srq 60 pair ib_send_lat -F --use-srq -n $n
for kind in FETCH_AND_ADD CMP_AND_SWAP; do
    run_test ib_atomic_bw-$kind 60 pair ib_atomic_bw -F -A $kind -n $n
    run_test ib_atomic_lat-$kind 60 pair ib_atomic_lat -F -A $kind -n $n
done
run_test nothing-left 20 test "$(status_value 'sum(x.get("qps", 0) + x.get("mrs", 0) for x in s["sessions"] if not x.get("admin"))')" = 0
run_here daemon-ends-cleanly fabric_down
finish_tests
