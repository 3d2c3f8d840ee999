#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified programs between two daemons in two network namespaces over veth, and what a capture shows of it.
# An af_packet wire carries about 1 Gbit/s: ROCEMU_FULL=1 runs the programs' default number of iterations with large
# messages too (much longer).
# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
big="-n 25" some="-n 150"
[ -z "${ROCEMU_FULL:-}" ] || big='' some=''

# name_of ARG...: an option list as a test's name.
name_of() { local s="$*"; s=${s//-/}; s=${s//@GID@/}; s=${s# }; echo "${s// /}"; }

pingpongs() { # MTU of the wire, then option lists
    local mtu=$1 options
    shift
    for options; do
        # shellcheck disable=SC2086
        run_test "mtu$mtu/ibv_rc_pingpong-$(name_of $options)" 120 pair ibv_rc_pingpong -g @GID@ $options
    done
}

perftests() { # MTU, program, option lists
    local mtu=$1 program=$2 options
    shift 2
    for options; do
        # shellcheck disable=SC2086
        run_test "mtu$mtu/$program-$(name_of $options)" 240 pair "$program" -F -x @GID@ $options
    done
}

# Runs of a fixed length, side by side.
perftests_timed() { # MTU, seconds, programs
    local mtu=$1 length=$2 program
    shift 2
    for program; do run_beside "mtu$mtu/$program-D$length" 240 pair "$program" -F -x @GID@ -D "$length"; done
    wait_beside
}

# dump NS FILE: tcpdump of what arrives at this end (what a packet socket sends past the queue is shown to no other
# socket of that end). Sets dump_pid.
# shellcheck disable=SC2317
dump() {
    ip netns exec "$1" tcpdump -Z root -Q in --immediate-mode -U -s 0 -B 65536 -i wire0 -w "$2" 'udp dst port 4791' \
        >"$2.log" 2>&1 </dev/null &
    dump_pid=$!
    wait_until 10 grep -q 'listening on' "$2.log"
}

# A little of everything while both ends and the daemon of one of them capture.
# shellcheck disable=SC2317
captured() {
    local dump_a dump_b tap
    dump "$ns_a" "$at_a"
    dump_a=$dump_pid
    dump "$ns_b" "$at_b"
    dump_b=$dump_pid
    "$rocemu" capture --socket "$sock_a" -d rocemu0 -w "$by_rocemu" >"$testlib_tmp/tap" 2>&1 </dev/null &
    tap=$!
    wait_until 10 test -s "$by_rocemu"
    sleep 0.5
    pair ibv_rc_pingpong -g @GID@ -n 50 -s 3001 -c || return
    pair ib_send_bw -F -x @GID@ -n 20 -s 5000 || return
    pair ib_write_bw -F -x @GID@ -n 20 -s 4097 || return
    pair ib_read_bw -F -x @GID@ -n 20 -s 9999 || return
    pair ibv_uc_pingpong -g @GID@ -n 20 -s 3001 -c || return
    pair ibv_ud_pingpong -g @GID@ -n 20 -s 1023 -c || return
    sleep 1
    kill "$tap" "$dump_a" "$dump_b"
    wait "$tap" || { echo "rocemu capture failed:"; cat "$testlib_tmp/tap"; return 1; }
    wait "$dump_a" "$dump_b"
    grep -h dropped "$at_a.log" "$at_b.log"
    ls -l "$at_a" "$at_b" "$by_rocemu"
}

captures() {
    local f
    at_a=$testlib_tmp/arriving-at-a.pcap
    at_b=$testlib_tmp/arriving-at-b.pcap
    by_rocemu=$testlib_tmp/by-rocemu-in-a.pcapng
    run_test "capture/made" 120 captured || return
    for f in "$at_a" "$at_b" "$by_rocemu"; do
        run_test "capture/tshark-$(basename "$f")" 60 dissects "$f"
        run_test "capture/icrc-$(basename "$f")" 60 "$rocemu" icrc-check "$f"
        run_test "capture/icrc-by-python-$(basename "$f")" 60 frames icrc "$f"
    done
    run_test "capture/all-agree" 60 frames compare "$by_rocemu" "$at_a" "$at_b"
}

# rping between the two machines.
listens_cm() {
    [ "$("$rocemu" status --socket "$sock_a" --json | grep -c '"cm_listeners": [1-9]')" != 0 ]
}
rping_pair() {
    local server rc out=$testlib_tmp/rping.out
    on_a rping -s -a "$1" -C 10 -v >"$out" 2>&1 </dev/null &
    server=$!
    wait_until 20 listens_cm && on_b rping -c -a $ip_a -C 10 -v && wait $server
    rc=$?
    [ $rc = 0 ] || { echo "rping: exit code $rc; server:"; cat "$out"; }
    return $rc
}
# rdma-core's own suite, all of it: with a kernel interface that has an address, as root, with huge pages where this
# machine gives some. Both sides of each test are one process on rocemu0 of a.
pyverbs_suite() {
    local suite=$testlib_root/tests/e2e/pyverbs_suite.py python=/usr/bin/python3 tests=$testlib_tmp/pyverbs module modules
    # The package belongs to Debian's own python3.
    local -x PYTHONPATH=/usr/lib/python3/dist-packages ROCEMU_PYVERBS=root ROCEMU_GID
    modules=$("$python" "$suite" modules 2>"$testlib_tmp/why") || {
        skip_test pyverbs "$(tail -n 1 "$testlib_tmp/why")"
        return
    }
    huge_pages 16
    "$python" "$suite" unpack "$tests" && ROCEMU_GID=$(gid_of on_a $ip_a) || return
    for module in $modules; do
        run_test "pyverbs/$module" 120 "$python" "$suite" run "$tests" "$module" "$testlib_tmp/pyverbs.results" -- \
            ip netns exec "$ns_a" "$rocemu" run --socket "$sock_a" --
    done
    run_test pyverbs/counted 10 "$python" "$suite" count "$testlib_tmp/pyverbs.results" 150
}
# Both would answer: it is told.
another_daemon() {
    local daemon log=$testlib_tmp/another.log
    daemon_in daemon "$ns_a" "$testlib_tmp/another.sock" "$log" && stop_daemon "$daemon" "$log" 15 || return
    grep 'another RoCE stack uses this interface' "$log" || { cat "$log"; return 1; }
}
# huge_pages N: at least so many are there until the end, if the machine has them.
huge_pages() {
    local file=/proc/sys/vm/nr_hugepages had
    had=$(cat $file) && [ "$had" -lt "$1" ] || return 0
    echo "$1" 2>/dev/null >$file && at_exit sh -c "echo $had >$file"
}

net_up 1500 || exit 1
run_here daemons-start daemons_up 'raw_packet = "on"' || finish_tests
run_test devices 30 on_a ibv_devinfo -v -d rocemu0
pingpongs 1500 "" "-e" "-m 256" "-m 512" "-m 1024" "-s 1" "-s 1048576 $some" "-n 10000" "-c"
for op in send write read; do
    perftests 1500 ib_${op}_bw "" "-a $big" "-q 8 $some" "-b" "-s 8388608 $big" "-e" "-I 64 -s 64"
    perftests 1500 ib_${op}_lat "-a $big" "-s 8"
done
perftests_timed 1500 5 ib_{send,write,read}_{bw,lat}
run_test rping 60 rping_pair $ip_a
run_test rping-any-address 60 rping_pair 0.0.0.0
pyverbs_suite
for type in uc ud; do run_test "mtu1500/ibv_${type}_pingpong" 120 pair ibv_${type}_pingpong -g @GID@ -s 1024 -c -n 300; done
perftests 1500 ib_send_bw "-c UC -n 500" "-c UD -n 500"
perftests 1500 ib_send_lat "-c UC -n 300" "-c UD -n 300"
perftests 1500 ib_write_bw "-c UC -n 500"
run_test mtu1500/ibv_xsrq_pingpong 120 pair ibv_xsrq_pingpong -g @GID@ -m 1024 -n 200
rm -f /tmp/xrc_domain{,_client,_server}  # of fixed names, and another user's cannot be opened
for op in send write read atomic; do perftests 1500 ib_${op}_bw "-c XRC -n 300"; done
rm -f /tmp/xrc_domain{,_client,_server}
captures
run_here daemons-end-cleanly daemons_down

# The same wire with jumbo frames: path MTU up to 4096.
wire_up "$ns_a" $ip_a 4200 && wire_up "$ns_b" $ip_b 4200 || exit 1
run_here mtu4200/daemons-start daemons_up || finish_tests
run_test mtu4200/another-daemon-on-the-wire 60 another_daemon
pingpongs 4200 "" "-m 2048" "-m 4096" "-m 4096 -s 1048576 -c $some"
for op in send write read; do perftests 4200 ib_${op}_bw "" "-m 4096 -s 8388608 $big"; done
run_here mtu4200/daemons-end-cleanly daemons_down

# One device on two shards: a pair of QPs of its own has an end on each.
two_shards_up() { daemon_in daemon_a "$ns_a" "$sock_a" "$testlib_tmp/shards.log" '[daemon]' "lcores = $cpus"; }
on_itself() {
    local server out=$testlib_tmp/itself.out gid
    gid=$(gid_of on_a $ip_a) && free_port "$ns_a" || return
    on_a ibv_rc_pingpong -d rocemu0 -g "$gid" -p "$port" -n 100 -c >"$out" 2>&1 </dev/null &
    server=$!
    wait_until 20 listens "$port" "$ns_a" && on_a ibv_rc_pingpong -d rocemu0 -g "$gid" -p "$port" -n 100 -c $ip_a && wait $server || {
        end_process $server
        cat "$out"
        return 1
    }
}
cpus=$(python3 -c 'import os; print(sorted(os.sched_getaffinity(0))[:2])')
if [[ $cpus == *,* ]]; then
    run_here shards/daemon-starts two_shards_up || finish_tests
    run_test shards/ibv_rc_pingpong 60 on_itself
    run_here shards/daemon-ends-cleanly daemons_down
else
    skip_test shards "one CPU"
fi
finish_tests
