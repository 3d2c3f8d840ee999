#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# librdmacm's programs and those of other packages between two daemons in two network namespaces: what tests/e2e runs on
# the fabric. ROCEMU_FULL=1 runs all of them, else those that behave otherwise on a wire.
# [case38]
# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
for part in programs mpi iser; do
    # shellcheck disable=SC1090
    . "$testlib_root/tests/support/$part.sh"
done
# shellcheck disable=SC2034
[ -n "${ROCEMU_FULL:-}" ] || programs='^(ucmatose|udaddy|mckey|rc_verbs-tag_lat-1024|mpi-rc-ring)$'
server_ip6=2001:db8:88::2
# A server of libfabric's connected endpoints (fi_pingpong) listens on what `localhost` is: that of its own hosts file.
mkdir -p "/etc/netns/$ns_b" && echo "$ip_b localhost" >"/etc/netns/$ns_b/hosts"
at_exit rm -r "/etc/netns/$ns_b"

net_up 1500 && ip -n "$ns_a" addr add 2001:db8:88::1/64 dev wire0 nodad && ip -n "$ns_b" addr add $server_ip6/64 dev wire0 nodad || exit 1
run_here daemons-start daemons_up || finish_tests
rdmacm_programs
perftest_cm_programs
package_programs
ucx_programs
mpi_programs
iser_programs
sees() { says "$1" at_client "${@:2}"; }
of ibstat ibstat 20 sees 'State: Active' ibstat
program ibv_devinfo 20 sees 'PORT_ACTIVE' ibv_devinfo
run_here daemons-end-cleanly daemons_down

# The same wire with connections over RoCE v1: every frame of theirs has its EtherType.
over_v1() {
    local dump rc file=$testlib_tmp/v1.pcap
    ip netns exec "$ns_b" tcpdump -Z root --immediate-mode -U -s 0 -i wire0 -w "$file" 'ether proto 0x8915 or udp port 4791' >"$file.log" 2>&1 </dev/null &
    dump=$!
    wait_until 10 grep -q 'listening on' "$file.log"
    rping_pair $server_ip -C 10 && cm_pair udaddy
    rc=$?
    sleep 0.5
    kill $dump
    wait $dump
    [ $rc = 0 ] || return
    count() { tcpdump -n -r "$file" "$1" 2>/dev/null | grep -c .; }
    echo "$(count 'ether proto 0x8915') frames of RoCE v1, $(count 'udp port 4791') of v2"
    [ "$(count 'ether proto 0x8915')" -gt 50 ] && [ "$(count 'udp port 4791')" = 0 ]
}
run_here v1-daemons-start daemons_up 'rdma_cm = "v1"' || finish_tests
run_test v1-rping-and-udaddy 60 over_v1
run_here v1-daemons-end-cleanly daemons_down
finish_tests
