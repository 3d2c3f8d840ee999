#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# librdmacm's programs and those of other packages between two daemons in two network namespaces: what tests/e2e runs on
# the fabric. ROCEMU_FULL=1 runs all of them, else those that behave otherwise on a wire.
# [case38]
# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
out=$testlib_tmp

listeners() { "$rocemu" status --socket "$sock_b" --json | grep -o '"cm_listeners": *[0-9]*' | awk -F: '{ n += $2 } END { print n + 0 }'; }
listens_more_than() { [ "$(listeners)" -gt "$1" ]; }

# both READY SERVER... --- CLIENT...: server on b, client on a; both must exit 0 by themselves. READY is a command.
both() {
    local ready=$1 server=() rc before
    shift
    while [ "$1" != --- ]; do server+=("$1"); shift; done
    shift
    before=$(listeners)
    on_b "${server[@]}" >"$out/server" 2>&1 </dev/null &
    server=$!
    wait_until 20 $ready "$before" && on_a "$@" </dev/null
    rc=$?
    [ $rc = 0 ] || { echo "client: exit code $rc; server:"; end_process $server; cat "$out/server"; return 1; }
    [ -z "${forever:-}" ] || { end_process $server; return 0; }
    wait $server
    rc=$?
    [ $rc = 0 ] || { echo "server: exit code $rc"; cat "$out/server"; return 1; }
}
cm() { both listens_more_than "$@"; }
# A server that serves until it is ended.
cm_forever() { forever=1 both listens_more_than "$@"; }
tcp_port() { listens "$port" "$ns_b"; }

mckey_pair() {
    both joined stdbuf -oL mckey -m 239.1.1.1 -b $ip_b --- mckey -m 239.1.1.1 -b $ip_a -s
}
joined() { grep -q joined "$out/server"; }
copy() {
    head -c 2000000 /dev/urandom >"$out/original"
    cm_forever rcopy --- rcopy "$out/original" "$ip_b:$out/copy" && cmp "$out/original" "$out/copy"
}
qperf_pair() {
    local test
    free_port "$ns_b"
    for test in rc_lat rc_bw rc_rdma_write_bw; do
        forever=1 both tcp_port qperf -lp "$port" --- qperf -lp "$port" -cm 1 -t 1 $ip_b $test || return
    done
}
fi_pair() {
    free_port "$ns_b"
    both tcp_port fi_pingpong -B "$port" -p verbs -e "$1" -I 10 --- fi_pingpong -P "$port" -p verbs -e "$1" -I 10 $ip_b
}
ucx_pair() { # TRANSPORTS TEST
    free_port "$ns_b"
    UCX_TLS=$1 UCX_NET_DEVICES=rocemu0:1 both tcp_port ucx_perftest -p "$port" --- ucx_perftest -p "$port" -t "$2" -n 200 -s 4096 $ip_b
}

net_up 1500 || exit 1
run_here daemons-start daemons_up || finish_tests
optional() {
    if command -v "$2" >/dev/null; then run_test "$1" 60 "${@:3}"; else skip_test "$1" "$2 is not installed"; fi
}
run_test ucmatose 60 cm ucmatose -b $ip_b -c 20 --- ucmatose -s $ip_b -c 20
run_test udaddy 60 cm udaddy -b $ip_b --- udaddy -s $ip_b
run_test mckey 60 mckey_pair
optional ucx-rc ucx_perftest ucx_pair rc_verbs,ud_verbs:aux tag_lat
if [ -n "${ROCEMU_FULL:-}" ]; then
    run_test cmtime 60 cm_forever cmtime -b $ip_b -c 100 --- cmtime -s $ip_b -c 100
    run_test rdma_client 60 cm rdma_server --- rdma_client -s $ip_b
    run_test rstream 60 cm rstream -b $ip_b -S 65536 -C 100 --- rstream -s $ip_b -S 65536 -C 100
    run_test riostream 60 cm riostream -b $ip_b -S 65536 -C 100 --- riostream -s $ip_b -S 65536 -C 100
    run_test rcopy 60 copy
    for p in ib_write_bw ib_read_bw ib_send_lat; do run_test $p-R 60 cm $p -R -F -n 100 --- $p -R -F -n 100 $ip_b; done
    optional qperf qperf qperf_pair
    optional fi_pingpong-dgram fi_pingpong fi_pair dgram
    optional ucx-ud ucx_perftest ucx_pair ud_verbs tag_lat
fi
run_here daemons-end-cleanly daemons_down
finish_tests
