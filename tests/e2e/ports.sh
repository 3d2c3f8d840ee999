#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user limit=120
# Two daemons of an ordinary user, without huge pages, joined by a DPDK port: the two files of configs/ (vhost-user and
# virtio-user), and memif. The link is what the port says now, not what it was when the daemon started.
. "$(dirname "$0")/lib.sh"
on() { ROCEMU_SOCKET=$testlib_tmp/$1.sock "$rocemu" "${@:2}"; }
start() { start_daemon "$1" "$testlib_tmp/$1.log" --config "$testlib_tmp/$1.toml" --socket "$testlib_tmp/$1.sock"; }
stop() { stop_daemon "${!1}" "$testlib_tmp/$1.log" 15; }
link_is() { wait_until 20 link_now "$@" || { echo "$1: the port is not $2"; cat "$testlib_tmp/$1.log"; return 1; }; }
link_now() {
    on "$1" run -- ibv_devinfo | grep -q "state:.*PORT_$2" &&
        on "$1" run -- cat /sys/class/infiniband/rocemu0/ports/1/state | grep -q "$2"
}
pingpong() {
    local server port rc
    free_port
    on a run -- ibv_rc_pingpong -g 3 -c -n 50 -p "$port" "$@" &
    server=$!
    wait_until 20 listens "$port"
    on b run -- ibv_rc_pingpong -g 3 -c -n 50 -p "$port" "$@" 127.0.0.1
    rc=$?
    [ $rc = 0 ] || end_process $server
    wait $server && return $rc
}

shipped() {
    local side
    for side in a b; do
        sed "s,/tmp/rocemu-link\.sock,$testlib_tmp/link.sock," "$testlib_root/configs/two-daemons-$side.toml" >"$testlib_tmp/$side.toml"
    done
    start a && link_is a DOWN && start b && link_is a ACTIVE && link_is b ACTIVE && pingpong -s 65536 -m 4096 || return
    # The second comes and goes.
    if [ -n "${ROCEMU_FULL:-}" ]; then stop b && link_is a DOWN && start b && link_is a ACTIVE && pingpong || return; fi
    stop a && link_is b DOWN && stop b
}
memif() {
    local role=server side
    for side in a b; do
        cat >"$testlib_tmp/$side.toml" <<TOML
[[device]]
name = "rocemu0"
port = "net_memif0,role=$role,socket=$testlib_tmp/memif.sock,socket-abstract=no,bsize=4608,mac=02:52:4f:00:01:0$side"
addresses = ["10.204.0.$((0x$side))/24"]
TOML
        role=client
    done
    start a && link_is a DOWN && start b && link_is a ACTIVE && pingpong -s 65536 && stop b && link_is a DOWN && stop a
}
run_test vhost-and-virtio-user 90 shipped
run_test memif 60 memif
finish_tests
