#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: (programs.sh)
# [case38] UCX, unmodified, over the embedded fabric: its tag, stream, put, get and atomic operations over RC and over UD.
. "$(dirname "$0")/lib.sh"
if ! command -v ucx_perftest >/dev/null; then
    skip_test "${testlib_prefix}ucx" "ucx_perftest is not installed"
    finish_tests
fi
fabric_up || exit 1

# over TRANSPORTS TEST SIZE: exit codes of both sides.
over() {
    local port server rc
    free_port
    UCX_TLS=$1 UCX_NET_DEVICES=rocemu0:1 attached ucx_perftest -p "$port" >"$testlib_tmp/server.out" 2>&1 </dev/null &
    server=$!
    wait_until 20 listens "$port" || { cat "$testlib_tmp/server.out"; end_process "$server"; return 1; }
    UCX_TLS=$1 UCX_NET_DEVICES=rocemu1:1 attached ucx_perftest -p "$port" -t "$2" -n 500 -s "$3" 127.0.0.1
    rc=$?
    [ $rc = 0 ] || { echo "client: exit code $rc; server:"; end_process "$server"; cat "$testlib_tmp/server.out"; return 1; }
    wait "$server"
}
rc=rc_verbs,ud_verbs:aux  # RC endpoints find each other over UD
for size in 8 1024 100000; do run_test rc_verbs-tag_lat-$size 60 over $rc tag_lat $size; done
for t in tag_bw stream_bw ucp_put_lat ucp_put_bw ucp_get; do run_test rc_verbs-$t 60 over $rc $t 4096; done
for t in ucp_fadd ucp_cswap; do run_test rc_verbs-$t 60 over $rc $t 8; done
for t in tag_lat tag_bw stream_bw; do run_test ud_verbs-$t 60 over ud_verbs $t 4096; done
run_here daemon-ends-cleanly fabric_down
finish_tests
