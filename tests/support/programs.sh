# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The programs of docs/programs.md that have two sides, as tests: the same between the NICs of the fabric and between two
# namespaces. Each is judged by the exit codes of both sides and by what they print. Sourced with two_sides.sh, whose
# variables it uses, and beside:
#
#   server_ip6   the server's IPv6 address
#   programs     run only tests whose name matches this extended regular expression

# program NAME LIMIT COMMAND...: run_test, if it is asked for. of BINARY...: skipped when that is not installed.
program() { if [[ $1 =~ ${programs:-} ]]; then run_test "$@"; fi; }
of() {
    if command -v "$1" >/dev/null; then program "${@:2}"; elif [[ $2 =~ ${programs:-} ]]; then skip_test "$testlib_prefix$2" "$1 is not installed"; fi
}

# Receivers say when they have joined, and end by themselves when they have had their messages: two on one NIC.
multicast() {
    local other
    at_server stdbuf -oL mckey -m 239.1.1.1 -b "$server_ip" >"$testlib_tmp/other.out" 2>&1 </dev/null &
    other=$!
    serve_until "grep -q joined $testlib_tmp/server.out" stdbuf -oL mckey -m 239.1.1.1 -b "$server_ip" &&
        wait_until 20 grep -q joined "$testlib_tmp/other.out" && client mckey -m 239.1.1.1 -b "$client_ip" -s && server_ends && wait $other
}
copy() {
    head -c 3000000 /dev/urandom >"$testlib_tmp/original"
    against rcopy --- rcopy "$testlib_tmp/original" "$server_ip:$testlib_tmp/copy" && cmp "$testlib_tmp/original" "$testlib_tmp/copy"
}
# rsockets under a program of its own, preloaded behind the provider. Inside: an instrumented `rocemu` takes no preload.
# shellcheck disable=SC2016
over_rsockets() {
    local rsockets='LD_PRELOAD=$LD_PRELOAD:/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so exec "$@"' program=$ROCEMU_BUILD/tests/e2e/tcp_program
    local before
    before=$(cm_count rx_mads)
    both sh -c "$rsockets" - "$program" server "$server_ip" 7471 --- sh -c "$rsockets" - "$program" client "$server_ip" 7471 1000000 &&
        [ "$(cm_count rx_mads)" -gt "$before" ]  # it was not TCP
}
cm_count() { server_view status | awk -F'[:,]' "/\"$1\"/ { print \$2 + 0 }"; }

# two PROGRAM SERVER-OPTIONS --- CLIENT-OPTIONS, and what both have.
cm_pair() { both "$1" -b "$server_ip" "${@:2}" --- "$1" -s "$server_ip" "${@:2}"; }
cm_pair_ip6() { both "$1" -f ip6 -b "$server_ip6" --- "$1" -f ip6 -s "$server_ip6"; }
rping_pair() { both rping -s -a "$1" -v "${@:2}" --- rping -c -a "$1" -v "${@:2}"; }

# librdmacm's own.
rdmacm_programs() {
    program rping 60 says 20 'ping data: rdma-ping-' rping_pair "$server_ip" -C 10
    program rping-ipv6 60 says 10 'ping data: rdma-ping-' rping_pair "$server_ip6" -C 5
    program rping-64k 60 says 40 'ping data: rdma-ping-' rping_pair "$server_ip" -C 20 -S 65000
    program ucmatose 60 says 2 '^return status 0' cm_pair ucmatose
    program ucmatose-ipv6 60 says 2 '^return status 0' cm_pair_ip6 ucmatose
    program ucmatose-50-connections 60 says 2 '^return status 0' cm_pair ucmatose -c 50
    program udaddy 60 says 2 '^return status 0' cm_pair udaddy
    program udaddy-ipv6 60 says 2 '^return status 0' cm_pair_ip6 udaddy
    program mckey 60 says 2 '^return status 0' multicast
    program cmtime 60 says '^disconnect ' against cmtime -b "$server_ip" -c 100 --- cmtime -s "$server_ip" -c 100
    program rdma_client 60 says 2 ': end 0' both rdma_server --- rdma_client -s "$server_ip"
    program rdma_xclient 60 says 2 'end 0' both rdma_xserver --- rdma_xclient -s "$server_ip"
    program rdma_xclient-xrc 60 says 2 'end 0' both rdma_xserver -c x --- rdma_xclient -c x -s "$server_ip"
    program rstream 60 says 2 '^custom ' cm_pair rstream -S 65536 -C 100
    program riostream 60 says 2 '^custom ' cm_pair riostream -S 65536 -C 100
    program rcopy 60 copy
    program librspreload 60 over_rsockets
}

# perftest connected by rdma_cm.
perftest_cm_programs() {
    program ib_write_bw-R 60 says '^ 65536 ' perftest_cm both ib_write_bw -R -F -n 100 --- ib_write_bw -R -F -n 100 "$server_ip"
    program ib_send_lat-R 60 says '^ 2 ' perftest_cm both ib_send_lat -R -F -n 100 --- ib_send_lat -R -F -n 100 "$server_ip"
    program ib_write_bw-R-traffic-class 60 says '^ 65536 ' perftest_cm both ib_write_bw -R -F -T 106 -n 100 --- ib_write_bw -R -F -T 106 -n 100 "$server_ip"
    program ib_read_bw-R-8-qps 60 says '^ 65536 ' perftest_cm both ib_read_bw -R -F -q 8 -n 100 --- ib_read_bw -R -F -q 8 -n 100 "$server_ip"
}

fio_pair() {
    local section='[g]\nioengine=rdma\nport=18515\nbs=64k\nsize=8m\niodepth=8\n'
    printf "${section}rw=read\n" >"$testlib_tmp/receiver.fio"
    printf "${section}hostname=$server_ip\nverb=$1\nrw=write\n" >"$testlib_tmp/sender.fio"
    both fio "$testlib_tmp/receiver.fio" --- fio "$testlib_tmp/sender.fio"
}
# Its server (0.4.11) tells the client its port before it calls rdma_listen, so a client that is quick is refused, as by
# any RDMA NIC: that one outcome, seen in the daemon's counter too, is tried again.
qperf_pair() {
    local test refused try
    for test; do
        for try in 1 2 3 4 5; do
            free_port "$server_ns"
            refused=$(cm_count rejected_no_listener)
            serve_tcp qperf -lp "$port" || return
            says '(bw|latency|msg_rate) *=' client qperf -lp "$port" -cm 1 -t 1 "$server_tcp" "$test" && end_server && continue 2
            grep -q 'Event rejected' "$testlib_tmp/says" && [ "$(cm_count rejected_no_listener)" -gt "$refused" ] || break
            echo "attempt $try: refused before the server listened"
        done
        server_view status | grep -A 9 '"cm": '
        return 1
    done
}
# With rdm over datagrams (ofi_rxd, without a provider named) the side that is done first ends without the other's last
# acknowledgement, and that one may wait for ever.
fi_pair() {
    local options=(-p verbs -e "$1" -I 10)
    [ "$1" != rdm ] || options[1]='verbs;ofi_rxm'
    both_tcp fi_pingpong -B @PORT@ "${options[@]}" --- fi_pingpong -P @PORT@ "${options[@]}" "$server_tcp"
}

# Those of other packages.
package_programs() {
    local type
    of fio fio-write 60 says 2 'err= 0' fio_pair write
    of fio fio-read 60 says 2 'err= 0' fio_pair read
    of qperf qperf 90 qperf_pair rc_lat rc_bw rc_rdma_read_lat rc_rdma_write_bw rc_compare_swap_mr
    for type in ${fi_types:-msg rdm dgram}; do of fi_pingpong fi_pingpong-$type 60 says 2 '^1k ' fi_pair $type; done
}

# UCX: tag, stream, put, get and atomic operations over RC and over UD.
ucx_pair() { # TRANSPORTS TEST SIZE
    local server_env=(env "UCX_TLS=$1" "UCX_NET_DEVICES=$server_dev:1") client_env=(env "UCX_TLS=$1" "UCX_NET_DEVICES=$client_dev:1")
    both_tcp "${server_env[@]}" ucx_perftest -p @PORT@ --- "${client_env[@]}" ucx_perftest -p @PORT@ -t "$2" -n 500 -s "$3" "$server_tcp"
}
ucx_programs() {
    local rc=rc_verbs,ud_verbs:aux size t  # RC endpoints find each other over UD
    for size in 8 1024 100000; do of ucx_perftest rc_verbs-tag_lat-$size 60 says '^Final:' ucx_pair $rc tag_lat $size; done
    for t in tag_bw stream_bw ucp_put_lat ucp_put_bw ucp_get; do of ucx_perftest rc_verbs-$t 60 says '^Final:' ucx_pair $rc $t 4096; done
    for t in ucp_fadd ucp_cswap; do of ucx_perftest rc_verbs-$t 60 says '^Final:' ucx_pair $rc $t 8; done
    for t in tag_lat tag_bw stream_bw; do of ucx_perftest ud_verbs-$t 60 says '^Final:' ucx_pair ud_verbs $t 4096; done
}
