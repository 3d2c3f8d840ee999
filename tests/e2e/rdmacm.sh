#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: asan limit=600 (user: programs.sh)
# librdmacm and its programs, unmodified, over the embedded fabric: rocemu0 (10.203.0.1, 2001:db8:203::1) and rocemu1
# (.2, ::2).
# Each program's own exit code counts, and what it prints where it says more. Programs of packages that are not
# installed are skipped.
# [case35] [case36] [case38]
. "$(dirname "$0")/lib.sh"
cat >"$testlib_tmp/config.toml" <<'END'
[[device]]
name = "rocemu0"
addresses = ["10.203.0.1/24", "2001:db8:203::1/64"]
[[device]]
name = "rocemu1"
addresses = ["10.203.0.2/24", "2001:db8:203::2/64"]
END
fabric_up --config "$testlib_tmp/config.toml" || exit 1
# shellcheck source=tests/support/programs.sh
. "$testlib_root/tests/support/programs.sh"
server_ip6=2001:db8:203::1
out=$testlib_tmp

# A server that serves one client after the other, of which the first ones are killed.
killed_clients() {
    local i pid
    serve rping -s -P -a $server_ip || return
    for i in 1 2; do
        "$rocemu" run -- rping -c -a $server_ip -C 1000000 >"$out/killed.out" 2>&1 </dev/null &
        pid=$!
        wait_until 30 qps_are 2 || { echo "client $i does not connect"; cat "$out/killed.out"; return 1; }
        kill -9 $pid
        wait_until 30 qps_are 0 || { echo "the server keeps the connection of client $i"; return 1; }
    done
    client rping -c -a $server_ip -C 5 -v || return
    end_process "$server"
}
qps_are() { [ "$(status_value 'sum(x.get("qps", 0) for x in s["sessions"])')" = "$1" ]; }

sees_ports() { attached ibstat | tee "$out/ibstat" && [ "$(grep -c 'State: Active' "$out/ibstat")" = 2 ]; }
sees_files() {
    # Counters in the view are renewed once a second.
    attached sh -c 'cat /sys/class/infiniband/rocemu0/ports/1/gid_attrs/types/3 &&
        realpath /sys/class/infiniband/rocemu0/device && test -c /dev/infiniband/uverbs_rocemu0 &&
        test $(cat /sys/class/infiniband/rocemu0/ports/1/hw_counters/rx_mads) -gt 0' >"$out/files"
    local rc=$?
    cat "$out/files"
    [ $rc = 0 ] && grep -q '^RoCE v2$' "$out/files" && grep -q '^/sys/class/infiniband/rocemu0/device$' "$out/files"
}

rdmacm_programs
# Addresses that only the fabric makes possible, or that mean something of their own there.
run_test rping-any-address 60 both rping -s -a 0.0.0.0 -C 10 -v --- rping -c -a $server_ip -C 10 -v
run_test rping-own-address 60 both rping -s -a $server_ip -C 3 -v --- rping -c -I $server_ip -a $server_ip -C 3 -v
run_test rping-loopback 60 rping_pair 127.0.0.1 -C 3
run_test rping-any-ipv6-takes-ipv4 60 both rping -s -a :: -C 5 -v --- rping -c -a $server_ip -C 5 -v
run_test rping-killed-clients 300 killed_clients
perftest_cm_programs
package_programs
run_test views 20 wait_until 10 sees_files

# Paths as the kernel sees them: by a program that no library function of ours helps.
own_namespace() {
    local server
    "$rocemu" run --namespace -- true 2>"$out/why" || { cat "$out/why"; return 77; }
    "$rocemu" run --namespace -- env -u LD_PRELOAD sh -c \
        'cat /sys/class/infiniband/rocemu1/ports/1/state && ls /dev/infiniband /dev/null /sys/class/net/lo && test -e /sys/class/misc/rdma_cm' || return
    serve rping -s -a $server_ip -C 3 -v && "$rocemu" run --namespace -- rping -c -a $server_ip -C 3 -v && wait $server
}
of ibstat ibstat 20 sees_ports
run_test own-namespace 60 own_namespace

nothing_left() { [ "$(status_value 'sum(x.get("qps", 0) + x.get("cm_ids", 0) for x in s["sessions"])')" = 0 ]; }
run_test nothing-left 30 wait_until 20 nothing_left
run_here daemon-ends-cleanly fabric_down
finish_tests
