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
bin=$ROCEMU_BUILD/tests/e2e
ip0=10.203.0.1
ip1=10.203.0.2
ip6=2001:db8:203::1
out=$testlib_tmp

# listeners: how many rdma_cm ids listen, by `rocemu status`.
listeners() { status_value 'sum(x.get("cm_listeners", 0) for x in s["sessions"])'; }
more_listeners_than() { [ "$(listeners)" -gt "$1" ]; }

# serve COMMAND...: starts a server attached and waits until it listens; its number in $server.
serve() {
    local before
    before=$(listeners)
    attached "$@" >"$out/server.out" 2>&1 </dev/null &
    server=$!
    wait_until 20 more_listeners_than "$before" && return
    echo "the server does not listen:"
    cat "$out/server.out"
    end_process "$server"
    return 1
}

# client COMMAND...: its output is shown; the server ends with it when it failed.
client() {
    attached "$@" >"$out/client.out" 2>&1 </dev/null
    local rc=$?
    cat "$out/client.out"
    [ $rc = 0 ] && return
    echo "client: exit code $rc; server:"
    end_process "$server"
    cat "$out/server.out"
    return 1
}

# both SERVER... --- CLIENT...: both must exit 0 by themselves.
both() {
    local command=() rc
    while [ "$1" != --- ]; do command+=("$1"); shift; done
    shift
    serve "${command[@]}" && client "$@" || return
    wait "$server"
    rc=$?
    echo "server:"
    cat "$out/server.out"
    [ $rc = 0 ] || { echo "server: exit code $rc"; return 1; }
}

# against SERVER... --- CLIENT...: a server that serves for ever is ended when the client has ended well.
against() {
    local command=()
    while [ "$1" != --- ]; do command+=("$1"); shift; done
    shift
    serve "${command[@]}" && client "$@" || return
    end_process "$server"
}

# A server that serves one client after the other, of which the first ones are killed.
killed_clients() {
    local i pid
    serve rping -s -P -a $ip0 || return
    for i in 1 2; do
        "$rocemu" run -- rping -c -a $ip0 -C 1000000 >"$out/killed.out" 2>&1 </dev/null &
        pid=$!
        wait_until 30 qps_are 2 || { echo "client $i does not connect"; cat "$out/killed.out"; return 1; }
        kill -9 $pid
        wait_until 30 qps_are 0 || { echo "the server keeps the connection of client $i"; return 1; }
    done
    client rping -c -a $ip0 -C 5 -v || return
    end_process "$server"
}
qps_are() { [ "$(status_value 'sum(x.get("qps", 0) for x in s["sessions"])')" = "$1" ]; }

# Receivers say when they have joined, and end by themselves when they have had their messages.
multicast() {
    local other
    attached stdbuf -oL mckey -m 239.1.1.1 -b $ip0 >"$out/server.out" 2>&1 </dev/null &
    server=$!
    attached stdbuf -oL mckey -m 239.1.1.1 -b $ip0 >"$out/other.out" 2>&1 </dev/null &
    other=$!
    wait_until 20 grep -q joined "$out/server.out" && wait_until 20 grep -q joined "$out/other.out" || {
        cat "$out/server.out" "$out/other.out"
        return 1
    }
    client mckey -m 239.1.1.1 -b $ip1 -s && wait "$server" && wait "$other"
}
rping_pair() { both rping -s -a "$1" "${@:3}" --- rping -c -a "$2" "${@:3}"; }
copy() {
    head -c 3000000 /dev/urandom >"$out/original"
    against rcopy --- rcopy "$out/original" "$ip0:$out/copy" && cmp "$out/original" "$out/copy"
}
# rsockets under a program of its own, preloaded behind the provider. Inside: an instrumented `rocemu` takes no preload.
rsockets='LD_PRELOAD=$LD_PRELOAD:/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so exec "$@"'
over_rsockets() {
    both sh -c "$rsockets" - "$bin/tcp_program" server "$ip0" 7471 --- \
        sh -c "$rsockets" - "$bin/tcp_program" client "$ip0" 7471 1000000
}
writes_nothing_over_tcp() { over_rsockets && [ "$(status_value 's["cm"]["rx_mads"]')" -gt "$1" ]; }
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

run_test rping 90 rping_pair $ip0 $ip0 -C 10 -v
run_test rping-any-address 90 rping_pair 0.0.0.0 $ip0 -C 10 -v
run_test rping-own-address 90 both rping -s -a $ip0 -C 3 -v --- rping -c -I $ip0 -a $ip0 -C 3 -v
run_test rping-loopback 90 rping_pair 127.0.0.1 127.0.0.1 -C 3 -v
run_test rping-ipv6 90 rping_pair $ip6 $ip6 -C 5 -v
run_test rping-any-ipv6-takes-ipv4 90 rping_pair :: $ip0 -C 5 -v
run_test rping-killed-clients 300 killed_clients
run_test rping-64k 90 rping_pair $ip1 $ip1 -C 20 -v -S 65000
run_test ucmatose 90 both ucmatose -b $ip0 --- ucmatose -b $ip1 -s $ip0
run_test ucmatose-ipv6 90 both ucmatose -f ip6 -b $ip6 --- ucmatose -f ip6 -s $ip6
run_test ucmatose-50-connections 90 both ucmatose -b $ip0 -c 50 --- ucmatose -s $ip0 -c 50
run_test udaddy 60 both udaddy -b $ip0 --- udaddy -s $ip0
run_test udaddy-ipv6 60 both udaddy -f ip6 -b $ip6 --- udaddy -f ip6 -s $ip6
run_test mckey 60 multicast
run_test cmtime 90 against cmtime -b $ip0 -c 100 --- cmtime -s $ip0 -c 100
run_test rdma_client 60 both rdma_server --- rdma_client -s $ip0
run_test rstream 90 both rstream -b $ip0 -S 65536 -C 100 --- rstream -s $ip0 -S 65536 -C 100
run_test riostream 90 both riostream -b $ip0 -S 65536 -C 100 --- riostream -s $ip0 -S 65536 -C 100
run_test rcopy 60 copy
run_test librspreload 60 writes_nothing_over_tcp "$(status_value 's["cm"]["rx_mads"]')"
run_test ib_write_bw-R 60 both ib_write_bw -R -F -n 100 --- ib_write_bw -R -F -n 100 $ip0
run_test ib_send_lat-R 60 both ib_send_lat -R -F -n 100 --- ib_send_lat -R -F -n 100 $ip0
run_test ib_read_bw-R-8-qps 60 both ib_read_bw -R -F -q 8 -n 100 --- ib_read_bw -R -F -q 8 -n 100 $ip0
run_test views 20 wait_until 10 sees_files

optional() {
    if command -v "$2" >/dev/null; then run_test "$1" "${@:3}"; else skip_test "$1" "$2 is not installed"; fi
}
fio_pair() {
    printf '[g]\nioengine=rdma\nport=%s\nbs=64k\nsize=8m\niodepth=8\nrw=read\n' $1 >"$out/receiver.fio"
    printf '[g]\nioengine=rdma\nhostname=%s\nport=%s\nverb=write\nbs=64k\nsize=8m\niodepth=8\nrw=write\n' \
        $ip0 $1 >"$out/sender.fio"
    both fio "$out/receiver.fio" --- fio "$out/sender.fio"
}
qperf_pair() {
    local port test
    free_port
    attached qperf -lp $port >"$out/server.out" 2>&1 </dev/null &
    server=$!
    wait_until 20 listens $port || return
    for test in rc_lat rc_bw rc_rdma_read_lat rc_rdma_write_bw rc_compare_swap_mr; do
        client qperf -lp $port -cm 1 -t 1 127.0.0.1 $test || return
    done
    end_process $server
}
# Paths as the kernel sees them: by a program that no library function of ours helps.
own_namespace() {
    local server
    "$rocemu" run --namespace -- true 2>"$out/why" || { cat "$out/why"; return 77; }
    "$rocemu" run --namespace -- env -u LD_PRELOAD sh -c \
        'cat /sys/class/infiniband/rocemu1/ports/1/state && ls /dev/infiniband /dev/null /sys/class/net/lo && test -e /sys/class/misc/rdma_cm' || return
    serve rping -s -a $ip0 -C 3 -v && "$rocemu" run --namespace -- rping -c -a $ip0 -C 3 -v && wait $server
}
fi_pair() {
    local port
    free_port
    attached fi_pingpong -B $port -p verbs -e "$1" -I 10 >"$out/server.out" 2>&1 </dev/null &
    server=$!
    wait_until 20 listens $port && client fi_pingpong -P $port -p verbs -e "$1" -I 10 127.0.0.1 || return
    wait $server
}
optional ibstat ibstat 20 sees_ports
optional fio fio 60 fio_pair 18515
optional qperf qperf 90 qperf_pair
for type in msg rdm dgram; do optional fi_pingpong-$type fi_pingpong 60 fi_pair $type; done
run_test own-namespace 60 own_namespace

nothing_left() { [ "$(status_value 'sum(x.get("qps", 0) + x.get("cm_ids", 0) for x in s["sessions"])')" = 0 ]; }
run_test nothing-left 30 wait_until 20 nothing_left
run_here daemon-ends-cleanly fabric_down
finish_tests
