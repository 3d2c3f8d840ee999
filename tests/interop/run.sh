#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu against Linux's own RoCE stack (rdma_rxe in a guest), each program in both roles.
#
#   $ns_a: rocemud on wire0, 10.88.0.1    veth    $ns_b: bridge - tap - guest with rxe0, 10.88.0.2
#
# ROCEMU_RXE_ENGINE=uml|qemu, ROCEMU_RXE_OUT=DIR: see README.md.
# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/../netns/lib.sh"
# shellcheck source=tests/interop/lib.sh
. "$(dirname "$0")/lib.sh"
mtu=${ROCEMU_RXE_MTU:-1500}

in_guest() { guest_exec "$ns_a" "$ip_b" "$@"; }

net_for_guest() {
    ns_make "$ns_a" && ns_make "$ns_b" || return
    ip link add name wire0 netns "$ns_a" type veth peer name wire-g netns "$ns_b" || return
    wire_up "$ns_a" $ip_a "$mtu" && ip -n "$ns_a" addr add fd00:88::1/64 dev wire0 nodad || return
    ip netns exec "$ns_a" ethtool -K wire0 tx off >/dev/null 2>&1
    guest_net "$ns_b" "$mtu" wire-g
}

# The guest's own stack against itself: a failure here is not rocemu's.
guest_alone() {
    in_guest 60 "g=\$(gid-index $ip_b); ibv_rc_pingpong -d rxe0 -g \$g -n 100 >/dev/null &
        wait-listen 18515; ibv_rc_pingpong -d rxe0 -g \$g -n 100 $ip_b && wait \$!"
}

# rocemu_client PROGRAM ARG...: server in the guest, client attached to rocemud. @GID@ is each side's index.
rocemu_client() {
    local port=$((18600 + RANDOM % 1000)) program=$1 gid server rc out=$testlib_tmp/guest.$BASHPID
    shift
    gid=$(gid_of on_a $ip_a) || { echo "no GID of $ip_a"; return 1; }
    in_guest 100 "$program -d rxe0 -p $port ${*//@GID@/\$(gid-index $ip_b)}" >"$out" 2>&1 &
    server=$!
    in_guest 25 "wait-listen $port" || { echo "the guest's server does not listen:"; cat "$out"; return 1; }
    on_a "$program" -d rocemu0 -p $port "${@//@GID@/$gid}" $ip_b
    rc=$?
    [ $rc = 0 ] || { echo "rocemu's client: exit code $rc"; sleep 1; cat "$out"; return 1; }
    wait $server
    rc=$?
    [ $rc = 0 ] || { echo "the guest's server: exit code $rc"; cat "$out"; return 1; }
}

# rocemu_server PROGRAM ARG...: server attached to rocemud, client in the guest.
rocemu_server() {
    local port program=$1 gid server rc out=$testlib_tmp/server.$BASHPID
    shift
    gid=$(gid_of on_a $ip_a) || { echo "no GID of $ip_a"; return 1; }
    free_port "$ns_a"
    on_a "$program" -d rocemu0 -p "$port" "${@//@GID@/$gid}" >"$out" 2>&1 </dev/null &
    server=$!
    wait_until 20 listens "$port" "$ns_a" || { echo "rocemu's server does not listen:"; cat "$out"; return 1; }
    in_guest 100 "$program -d rxe0 -p $port ${*//@GID@/\$(gid-index $ip_b)} $ip_a"
    rc=$?
    [ $rc = 0 ] || { echo "the guest's client: exit code $rc"; sleep 1; cat "$out"; return 1; }
    wait $server
    rc=$?
    [ $rc = 0 ] || { echo "rocemu's server: exit code $rc"; cat "$out"; return 1; }
}

both_roles() {
    local name=$1
    shift
    run_test "$name-rocemu-is-client" 150 rocemu_client "$@"
    run_test "$name-rocemu-is-server" 150 rocemu_server "$@"
}

net_for_guest || exit 1
if ! guest_start "$ns_b" $ip_b/24 "$mtu" fd00:88::2/64; then
    printf 'not ok  guest does not start\n'
    testlib_record failed "${testlib_prefix}guest-starts"
    finish_tests
fi
# QEMU without KVM is about ten times slower than User-Mode Linux.
n=1000
[ "$engine" = uml ] || n=100
run_test guest-alone 90 guest_alone
run_here daemon-starts daemon_in daemon_a "$ns_a" "$sock_a" "$testlib_tmp/a.log" 'addresses = ["10.99.0.1/24@5"]' || finish_tests
at_exit daemons_down
both_roles ibv_rc_pingpong ibv_rc_pingpong -g @GID@ -n $n
both_roles ibv_rc_pingpong-odd-sizes ibv_rc_pingpong -g @GID@ -n 100 -s 3001 -c
for op in send write read; do
    both_roles ib_${op}_bw ib_${op}_bw -F -x @GID@ -n $n
    both_roles ib_${op}_bw-all-sizes ib_${op}_bw -F -x @GID@ -a -n 20
done
# shellcheck source=tests/interop/cm_cases.sh
. "$(dirname "$0")/cm_cases.sh"
run_here daemon-ends-cleanly daemons_down
finish_tests
