#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Kernel interfaces that change while traffic runs: addresses removed and added, MTU, link, MAC address, a VLAN that
# appears and goes; and frames of a VLAN on the wire. The right asynchronous events, and traffic that is not concerned goes on.
# [case30] [case31] [case32] [case34]
# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
other_a=10.89.0.1 other_b=10.89.0.2
vlan_a=10.90.0.1 vlan_b=10.90.0.2 vid=5
out=$testlib_tmp

net_up 9000 || exit 1
ip -n "$ns_a" addr add $other_a/24 dev wire0 && ip -n "$ns_b" addr add $other_b/24 dev wire0 || exit 1
both_daemons() {
    daemon_in daemon_a "$ns_a" "$sock_a" "$out/a.log" "addresses = [\"$vlan_a/24@$vid\"]" &&
        daemon_in daemon_b "$ns_b" "$sock_b" "$out/b.log" "addresses = [\"$vlan_b/24@$vid\"]"
}
run_here daemons-start both_daemons || finish_tests
at_exit daemons_down

# Asynchronous events that a program sees, a line each.
on_a stdbuf -oL ibv_asyncwatch >"$out/events" 2>&1 </dev/null &
watcher=$!
at_exit end_process $watcher
wait_until 10 grep -q -i 'event FD' "$out/events"
# events_of WORD: how many lines name it so far.
events_of() { grep -c -i "$1" "$out/events"; }
more_events_than() { [ "$(events_of "$2")" -gt "$1" ]; }
# after EVENT COMMAND...: the command leads to one more such event.
after() {
    local event=$1 before
    before=$(events_of "$event")
    shift
    "$@" || return
    wait_until 10 more_events_than "$before" "$event" && return
    echo "no event '$event'; events:"
    cat "$out/events"
    return 1
}

# The traffic that must go on, and one that uses the address which goes away. rping counts its rounds in its output.
listeners_are() { [ "$("$rocemu" status --socket "$sock_b" --json | grep -o '"cm_listeners": *[0-9]*' | awk -F: '{ n += $2 } END { print n + 0 }')" = "$1" ]; }
# start_rping VAR NUMBER ADDRESS: server on b, endless client on a.
start_rping() {
    on_b rping -s -P -a "$3" >"$out/server$2" 2>&1 </dev/null &
    at_exit end_process $!
    wait_until 10 listeners_are "$2" || { echo "no listener"; cat "$out/server$2"; return 1; }
    on_a stdbuf -oL rping -c -a "$3" -C 100000000 -v >"$out/rping$2" 2>&1 </dev/null &
    printf -v "$1" %s $!
    at_exit end_process $!
    wait_until 20 grows "$2"
}
# grows NUMBER: another ten rounds were made.
grows() {
    local before
    before=$(wc -l <"$out/rping$1")
    wait_until 10 longer_than $((before + 10)) "$out/rping$1"
}
longer_than() { [ "$(wc -l <"$2")" -gt "$1" ]; }
still_there() { kill -0 $affected_not && grows 1 || { echo "the other connection does not go on:"; tail -n 3 "$out/rping1"; return 1; }; }
one_round() { timeout 20 ip netns exec "$ns_a" "$rocemu" run --socket "$sock_a" -- rping -c -a "$1" -C 3 -v; }

mtu_of() { on_a ibv_devinfo -d rocemu0 | awk '/active_mtu:/ { print $2 }'; }
state_of() { on_a ibv_devinfo -d rocemu0 | awk '/state:/ { print $2 }'; }
is() { local expected=$1; shift; [ "$("$@")" = "$expected" ]; }

address_removed() {
    local index
    index=$(gid_of on_a $ip_a) || return
    after GID ip -n "$ns_a" addr del $other_a/24 dev wire0 || return
    if gid_of on_a $other_a; then echo "its GID is still there"; return 1; fi
    [ "$(gid_of on_a $ip_a)" = "$index" ] && still_there
}
address_added() {
    local index
    index=$(gid_of on_a $ip_a) || return
    after GID ip -n "$ns_a" addr add $other_a/24 dev wire0 || return
    gid_of on_a $other_a && [ "$(gid_of on_a $ip_a)" = "$index" ] && still_there && one_round $other_b
}
mtu_changed() {
    ip -n "$ns_a" link set wire0 mtu 1500 && wait_until 10 is 1024 mtu_of && still_there || return
    # A path MTU above that of the port is refused.
    if on_a ibv_rc_pingpong -d rocemu0 -g "$(gid_of on_a $ip_a)" -m 4096 $ip_b >"$out/refused" 2>&1; then return 1; fi
    ip -n "$ns_a" link set wire0 mtu 9000 && wait_until 10 is 4096 mtu_of && still_there
}
# Sizes around the path MTUs and a large one, byte by byte, at an MTU that both sides change to.
sizes() { # MTU OF-THE-INTERFACE ACTIVE-MTU
    local size
    ip -n "$ns_a" link set wire0 mtu "$1" && ip -n "$ns_b" link set wire0 mtu "$1" && wait_until 10 is "$2" mtu_of || return
    for size in 1023 1024 1025 4096 4097; do pair ibv_rc_pingpong -g @GID@ -m "$2" -c -s $size -n 10 || return; done
    pair ibv_rc_pingpong -g @GID@ -m "$2" -c -s 8388608 -n 2 && still_there
}
mac_changed() {
    after GID ip -n "$ns_a" link set wire0 address 02:77:66:55:44:33 || return
    wait_until 10 eval 'on_a ibv_devinfo -v -d rocemu0 | grep -q "fe80::77:66ff:fe55:4433"' || { on_a ibv_devinfo -v -d rocemu0; return 1; }
    still_there && one_round $ip_b
}
link_down_and_up() {
    after PORT_ERR ip -n "$ns_a" link set wire0 down || return
    wait_until 5 is PORT_DOWN state_of || { state_of; return 1; }
    after PORT_ACTIVE ip -n "$ns_a" link set wire0 up || return
    wait_until 5 is PORT_ACTIVE state_of || { state_of; return 1; }
    wait_until 30 one_round $ip_b
}

# VLANs of the kernel are followed, where it has any; members of groups are members there too.
in_vlan() { ip -n "$ns_a" maddr show dev wire0.9 | grep -q -w "$1"; }
member_of() { # VAR GROUP
    on_a mckey -m "$2" -b $ip_a >"$out/mckey.$2" 2>&1 </dev/null &
    printf -v "$1" %s $!
    at_exit end_process $!
    wait_until 20 eval "ip -n $ns_a maddr show dev wire0 | grep -q -w $2"
}
vlan_appears() {
    local index first second
    if ! ip -n "$ns_a" link add link wire0 name wire0.9 type vlan id 9; then
        echo "this kernel has no VLANs"
        return 77
    fi
    member_of first 239.1.2.3 || { cat "$out/mckey.239.1.2.3"; return 1; }
    ip -n "$ns_a" link set wire0.9 up && ip -n "$ns_a" addr add 10.92.0.1/24 dev wire0.9 || return
    wait_until 10 gid_of on_a 10.92.0.1 || return
    index=$(gid_of on_a 10.92.0.1)
    [ "$(on_a cat "/sys/class/infiniband/rocemu0/ports/1/gid_attrs/ndevs/$index")" = wire0.9 ] || return
    wait_until 10 in_vlan 239.1.2.3 && member_of second 239.1.2.4 && wait_until 10 in_vlan 239.1.2.4 ||
        { ip -n "$ns_a" maddr show; return 1; }
    end_process "$first"
    end_process "$second"
    after GID ip -n "$ns_a" link del wire0.9 && ! gid_of on_a 10.92.0.1 && still_there
}
# over_vlan PROGRAM ARG...: by GIDs of the VLAN; the programs' own TCP connection is the kernel's.
over_vlan() {
    local gid_a gid_b
    gid_a=$(gid_of on_a $vlan_a) && gid_b=$(gid_of on_b $vlan_b) || return
    free_port "$ns_b"
    local here=("${@//@GID@/$gid_a}") there=("${@//@GID@/$gid_b}")
    on_b "$1" -d rocemu0 -p "$port" "${there[@]:1}" >"$out/server" 2>&1 </dev/null &
    server=$!
    wait_until 20 listens "$port" "$ns_b" && on_a "$1" -d rocemu0 -p "$port" "${here[@]:1}" $ip_b && wait $server && return
    cat "$out/server"
    return 1
}
# Two programs over the VLAN while the wire is captured: every frame of theirs has the tag, with the service level as
# its priority, and the traffic class as its DSCP; and no kernel answers.
vlan_traffic() {
    local dump rc file=$out/vlan.pcap
    ip netns exec "$ns_b" tcpdump -Z root -Q in --immediate-mode -U -s 0 -i wire0 -w "$file" >"$file.log" 2>&1 </dev/null &
    dump=$!
    wait_until 10 grep -q 'listening on' "$file.log"
    over_vlan ibv_rc_pingpong -g @GID@ -n 100 -s 3001 -c -l 3 && over_vlan ib_send_bw -F -x @GID@ -n 20 --tclass=106 -S 3 &&
        one_round $vlan_b
    rc=$?
    sleep 0.5
    kill "$dump"
    wait "$dump"
    [ $rc = 0 ] || return
    count() { tcpdump -e -n -r "$file" "$1" 2>/dev/null | grep -c -E "$2"; }
    echo "tagged: $(count "vlan $vid and udp port 4791" .), with priority 3: $(count "vlan $vid and udp port 4791" "p 3,"), " \
        "with DSCP 26: $(tcpdump -e -v -n -r "$file" "vlan $vid and udp port 4791" 2>/dev/null | grep -c 'tos 0x68')"
    [ "$(count "vlan $vid and udp port 4791" .)" -gt 200 ] && [ "$(count "vlan $vid and udp port 4791" 'p 3,')" -gt 200 ] &&
        [ "$(tcpdump -e -v -n -r "$file" "vlan $vid and udp port 4791" 2>/dev/null | grep -c 'tos 0x68')" -gt 20 ] &&
        [ "$(count "icmp or (vlan and icmp)" .)" = 0 ]
}
# rdma_set_option(RDMA_OPTION_ID_TOS) of perftest.
tos_of_rdma_cm() {
    local dump rc file=$out/tos.pcap
    ip netns exec "$ns_b" tcpdump -Z root -Q in --immediate-mode -U -s 0 -i wire0 -w "$file" 'udp dst port 4791' >"$file.log" 2>&1 </dev/null &
    dump=$!
    wait_until 10 grep -q 'listening on' "$file.log"
    on_b ib_write_bw -R -F -n 50 -T 106 >"$out/tos.server" 2>&1 </dev/null &
    server=$!
    wait_until 20 listeners_are 4 && on_a ib_write_bw -R -F -n 50 -T 106 $ip_b && wait $server
    rc=$?
    sleep 0.5
    kill "$dump"
    wait "$dump"
    [ $rc = 0 ] || { cat "$out/tos.server"; return 1; }
    [ "$(tcpdump -v -n -r "$file" 2>/dev/null | grep -c 'tos 0x68')" -gt 40 ]
}

run_here traffic-starts start_rping affected_not 1 $ip_b
run_here traffic-of-the-other-address start_rping affected 2 $other_b
run_test address-removed 60 address_removed
run_test address-added 60 address_added
run_test mtu-changed 60 mtu_changed
run_test mtu-1500-sizes 60 sizes 1500 1024
run_test mtu-4200-sizes 60 sizes 4200 4096
run_test mtu-9000-sizes 60 sizes 9000 4096
run_test mac-changed 60 mac_changed
run_test vlan-of-the-kernel 60 vlan_appears
vlan_listener() {
    on_b rping -s -P -a $vlan_b >"$out/vlan.server" 2>&1 </dev/null &
    at_exit end_process $!
    wait_until 10 listeners_are 3
}
run_here vlan-listener vlan_listener
run_test vlan-traffic 120 vlan_traffic
run_test tos-of-rdma_cm 60 tos_of_rdma_cm
run_test link-down-and-up 90 link_down_and_up
# Followed by its number: another name is nothing to it.
interface_renamed() {
    ip -n "$ns_a" link set wire0 down && ip -n "$ns_a" link set wire0 name wire7 up || return
    wait_until 10 is PORT_ACTIVE state_of && wait_until 30 one_round $ip_b || return
    wait_until 10 eval 'on_a grep -q wire7 /sys/class/infiniband/rocemu0/ports/1/gid_attrs/ndevs/0' || return
    ip -n "$ns_a" link set wire7 down && ip -n "$ns_a" link set wire7 name wire0 up && wait_until 10 is PORT_ACTIVE state_of
}
# Another interface of that name is another one: the port's sockets are of the first.
interface_replaced() {
    after PORT_ERR ip -n "$ns_a" link del wire0 && grep -q 'wire0 was removed' "$out/a.log" || { cat "$out/a.log"; return 1; }
    ip link add name wire0 netns "$ns_a" type veth peer name wire0 netns "$ns_b" && wire_up "$ns_a" $ip_a 9000 &&
        wire_up "$ns_b" $ip_b 9000 || return
    sleep 1
    is PORT_DOWN state_of || { state_of; return 1; }
}
run_test interface-renamed 60 interface_renamed
run_test interface-replaced 30 interface_replaced
run_here daemons-end-cleanly daemons_down
finish_tests
