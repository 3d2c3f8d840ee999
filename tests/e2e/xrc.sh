#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user limit=240
# Unmodified programs over XRC through the embedded fabric: one shared receive queue for several clients, and every
# operation of the transport.
. "$(dirname "$0")/lib.sh"
fabric_up || exit 1

# xsrq CLIENTS ARG...: the server on rocemu0, its clients on rocemu1; all must exit 0.
xsrq() {
    local clients=$1 port server i pids=() rc=0 out=$testlib_tmp/xsrq
    shift
    free_port
    attached ibv_xsrq_pingpong -d rocemu0 -p "$port" -g 3 -m 1024 -c "$clients" "$@" >"$out.server" 2>&1 </dev/null &
    server=$!
    wait_until 20 listens "$port" || { cat "$out.server"; end_process "$server"; return 1; }
    for ((i = 0; i < clients; i++)); do
        attached ibv_xsrq_pingpong -d rocemu1 -p "$port" -g 3 -m 1024 -c "$clients" "$@" 127.0.0.1 >"$out.$i" 2>&1 </dev/null &
        pids+=($!)
    done
    for ((i = 0; i < clients; i++)); do wait "${pids[i]}" || { rc=1; echo "client $i:"; cat "$out.$i"; }; done
    [ $rc = 0 ] || end_process "$server"
    wait "$server" || { rc=1; echo "server:"; cat "$out.server"; }
    return $rc
}

# The programs keep their domains in files of fixed names, and a sticky directory gives none of another user's: perftest
# ends then, ibv_xsrq_pingpong goes on with a private domain, which cannot do what several clients together need.
domains=(/tmp/xrc_domain /tmp/xrc_domain_client /tmp/xrc_domain_server)
rm -f "${domains[@]}" 2>/dev/null
at_exit rm -f "${domains[@]}"
in_domains() {
    local f
    for f in "${domains[@]}"; do
        if [ -e "$f" ] && [ ! -O "$f" ]; then echo "$f belongs to another user"; return 77; fi
    done
    "$@"
}

run_test xsrq_pingpong 60 xsrq 1
run_test xsrq_pingpong-3-clients 60 in_domains xsrq 3 -n 100
run_test xsrq_pingpong-events 60 xsrq 1 -e
run_test xsrq_pingpong-large 60 xsrq 1 -s 100000 -n 50
n=500
for op in send write read; do
    run_test ib_${op}_bw 60 in_domains pair ib_${op}_bw -F -c XRC -n $n
    run_test ib_${op}_lat 60 in_domains pair ib_${op}_lat -F -c XRC -n $n
done
run_test ib_atomic_bw-FETCH_AND_ADD 60 in_domains pair ib_atomic_bw -F -c XRC -A FETCH_AND_ADD -n $n
run_test ib_atomic_lat-CMP_AND_SWAP 60 in_domains pair ib_atomic_lat -F -c XRC -A CMP_AND_SWAP -n $n
run_test ib_send_bw-4-qps-both-ways 60 in_domains pair ib_send_bw -F -c XRC -q 4 -b -n $n
run_test ib_send_bw-events 60 in_domains pair ib_send_bw -F -c XRC -e -n $n
run_test nothing-left 20 test "$(status_value 'sum(x.get("qps", 0) + x.get("mrs", 0) for x in s["sessions"] if not x.get("admin"))')" = 0
run_here daemon-ends-cleanly fabric_down
finish_tests
