# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Two network namespaces joined by a veth pair, with a rocemud of its own in each. Sources testlib.sh itself.
#
#   namespace   $ns_a                         $ns_b
#   interface   wire0 10.88.0.1/24            wire0 10.88.0.2/24
#   socket      $sock_a                       $sock_b           (rocemud on net_af_packet,iface=wire0; device rocemu0)
# shellcheck source=tests/support/testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/testlib.sh"
# shellcheck source=tests/support/captures.sh
. "$testlib_root/tests/support/captures.sh"
ns_a=rocemu-a-$$
ns_b=rocemu-b-$$
ip_a=10.88.0.1
ip_b=10.88.0.2
sock_a=$testlib_tmp/a.sock
sock_b=$testlib_tmp/b.sock
daemon_a=
daemon_b=

# ns_make NS: a namespace whose IPv6 link-local addresses are usable at once, so that GID indices are stable.
ns_make() {
    ip netns add "$1" || return
    at_exit ip netns del "$1"
    # shellcheck disable=SC2016
    ip netns exec "$1" sh -c 'for f in all default; do echo 0 >/proc/sys/net/ipv6/conf/$f/accept_dad; done' 2>/dev/null
    ip -n "$1" link set lo up
}

# wire_up NS ADDRESS MTU: this namespace's end of the veth pair.
wire_up() {
    ip -n "$1" link set wire0 mtu "$3" up && ip -n "$1" addr replace "$2/24" dev wire0
}

# net_up MTU: namespaces and wire.
net_up() {
    ns_make "$ns_a" && ns_make "$ns_b" || return
    ip link add name wire0 netns "$ns_a" type veth peer name wire0 netns "$ns_b" || return
    wire_up "$ns_a" $ip_a "$1" && wire_up "$ns_b" $ip_b "$1"
}

# daemon_in PIDVAR NS SOCKET LOG [TOML LINE...]: a rocemud on wire0 of this namespace; the lines are appended to its
# configuration, after the device.
daemon_in() {
    local var=$1 ns=$2 socket=$3 log=$4 config
    shift 4
    config=$(mktemp "$testlib_tmp/config.XXXXXX.toml")
    printf '%s\n' '[[device]]' 'name = "rocemu0"' 'port = "net_af_packet,iface=wire0"' "$@" >"$config"
    start_daemon "$var" "$log" ip netns exec "$ns" -- --config "$config" --socket "$socket"
}

# daemons_up [TOML LINE...]
daemons_up() {
    daemon_in daemon_a "$ns_a" "$sock_a" "$testlib_tmp/a.log" "$@" || return
    daemon_in daemon_b "$ns_b" "$sock_b" "$testlib_tmp/b.log" "$@" || return
    at_exit daemons_down
}

# daemons_down: fails when one of them did not end by itself with exit code 0.
daemons_down() {
    local rc=0 a=$daemon_a b=$daemon_b
    daemon_a=
    daemon_b=
    [ -z "$a" ] || stop_daemon "$a" "$testlib_tmp/a.log" || rc=1
    [ -z "$b" ] || stop_daemon "$b" "$testlib_tmp/b.log" || rc=1
    return $rc
}

# For programs of two sides the server is on b and the client on a.
# shellcheck source=tests/support/two_sides.sh
. "$testlib_root/tests/support/two_sides.sh"
client_host=(ip netns exec "$ns_a")
client_run=("${client_host[@]}" "$rocemu" run --socket "$sock_a" --)
server_run=(ip netns exec "$ns_b" "$rocemu" run --socket "$sock_b" --)
server_view() { "$rocemu" "$1" --socket "$sock_b" --json; }
server_ns=$ns_b wire=wire0 server_dev=rocemu0 client_dev=rocemu0 server_ip=$ip_b client_ip=$ip_a server_tcp=$ip_b
on_a() { at_client "$@"; }
on_b() { at_server "$@"; }

# gid_of on_a|on_b ADDRESS: the index of this address's RoCE v2 entry in the GID table of rocemu0.
gid_of() {
    "$1" ibv_devinfo -v -d rocemu0 | awk -v a="::ffff:$2," '
        $1 == "GID[" { index_ = $2 + 0; if ($3 == a && /RoCE v2/) { print index_; found = 1; exit } }
        END { exit !found }'
}

# refused_by_program FILE: the program itself does not offer these options: its own words, else fails.
refused_by_program() { grep -m 1 -E 'not available|not supported|cannot be used|Unsupported' "$1"; }

# pair PROGRAM ARG...: server on b, client on a; `@GID@` in an argument is each side's index. Both must exit 0.
# 77 (skip) when the program says that it does not offer the options.
pair() {
    local port server rc out=$testlib_tmp/server.$BASHPID client=$testlib_tmp/client.$BASHPID program=$1 gid_a gid_b
    shift
    gid_a=$(gid_of on_a $ip_a) || { echo "no GID of $ip_a"; return 1; }
    gid_b=$(gid_of on_b $ip_b) || { echo "no GID of $ip_b"; return 1; }
    free_port "$ns_b"
    on_b "$program" -d rocemu0 -p "$port" "${@//@GID@/$gid_b}" >"$out" 2>&1 </dev/null &
    server=$!
    if ! wait_until 20 server_listens $server "$port" || ! listens "$port" "$ns_b"; then
        end_process $server
        if refused_by_program "$out"; then return 77; fi
        echo "the server does not listen:"
        cat "$out"
        return 1
    fi
    on_a "$program" -d rocemu0 -p "$port" "${@//@GID@/$gid_a}" $ip_b >"$client" 2>&1
    rc=$?
    cat "$client"
    if [ $rc != 0 ]; then
        echo "client: exit code $rc; server:"
        end_process $server
        cat "$out"
        return 1
    fi
    wait $server
    rc=$?
    if [ $rc != 0 ]; then
        echo "server: exit code $rc:"
        cat "$out"
        return 1
    fi
}
# True also when the server is gone, so that nobody waits for it.
server_listens() { listens "$2" "$ns_b" || ! kill -0 "$1" 2>/dev/null; }
