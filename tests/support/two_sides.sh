# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs of two sides: a server that is waited for, and a client. The lib.sh that sources this says where they are:
#
#   server_run, client_run   arrays: what runs a command there, attached
#   client_host              array: what runs a command there, not attached; empty: they are on one host, this one
#   server_view WHAT         `rocemu WHAT --json` of the server's daemon
#   server_ns, wire          namespace of the server's TCP ports, kernel interface that joins both sides; empty as above
#   server_dev, client_dev   RDMA devices
#   server_ip, client_ip     addresses of these
#   server_tcp               where the client finds TCP ports of the server
#
# In commands `@PORT@` stands for a TCP port that is free.

at_server() { "${server_run[@]}" "$@"; }
at_client() { "${client_run[@]}" "$@"; }
listeners() { server_view status | awk -F: '/"cm_listeners"/ { n += $2 } END { print n + 0 }'; }
more_listeners_than() { [ "$(listeners)" -gt "$1" ]; }

# serve_until CONDITION COMMAND...: starts a server and waits until CONDITION holds; its number in $server, its output in
# $testlib_tmp/server.out.
serve_until() {
    local condition=$1
    shift
    # Not by at_server: the number is the program's own, not that of a shell.
    "${server_run[@]}" "$@" >"$testlib_tmp/server.out" 2>&1 </dev/null &
    server=$!
    wait_until 20 server_ready "$condition"
    # shellcheck disable=SC2086
    kill -0 $server 2>/dev/null && $condition && return
    end_process $server
    echo "the server does not listen:"
    cat "$testlib_tmp/server.out"
    return 1
}
# Nobody waits for a server that is gone.
server_ready() { $1 || ! kill -0 $server; }
# serve COMMAND...: until it listens by rdma_cm. serve_tcp: until it listens on $port.
serve() { serve_until "more_listeners_than $(listeners)" "$@"; }
serve_tcp() { serve_until "listens $port $server_ns" "${@//@PORT@/$port}"; }

# client COMMAND...: its output is shown; when it fails the server is ended.
client() {
    at_client "${@//@PORT@/${port:-}}" </dev/null
    local rc=$?
    [ $rc = 0 ] && return
    echo "client: exit code $rc; server:"
    end_process $server
    cat "$testlib_tmp/server.out"
    return 1
}
server_ends() {
    wait $server
    local rc=$?
    echo "server:"
    cat "$testlib_tmp/server.out"
    [ $rc = 0 ] || { echo "server: exit code $rc"; return 1; }
}

# two_sides SERVE END SERVER... --- CLIENT...
two_sides() {
    local serve=$1 end=$2 command=()
    shift 2
    while [ "$1" != --- ]; do command+=("$1"); shift; done
    shift
    "$serve" "${command[@]}" && client "$@" && $end
}
# both SERVER... --- CLIENT...: both must exit 0 by themselves. against: a server that serves for ever is ended when the
# client has ended well.
both() { two_sides serve server_ends "$@"; }
against() { two_sides serve end_server "$@"; }
end_server() { end_process $server; }
# The same for servers that are reached by TCP.
both_tcp() { free_port "$server_ns" && two_sides serve_tcp server_ends "$@"; }
against_tcp() { free_port "$server_ns" && two_sides serve_tcp end_server "$@"; }

# says [COUNT] REGEX COMMAND...: it succeeds, and so many lines of its output match (1 or more without COUNT).
says() {
    local count= regex rc found
    case $1 in [0-9]*) count=$1; shift ;; esac
    regex=$1
    shift
    "$@" >"$testlib_tmp/says" 2>&1
    rc=$?
    cat "$testlib_tmp/says"
    [ $rc = 0 ] || return $rc
    found=$(grep -c -E "$regex" "$testlib_tmp/says")
    if [ -n "$count" ]; then [ "$found" = "$count" ]; else [ "$found" -gt 0 ]; fi && return
    echo "$found lines match '$regex'${count:+, not $count}"
    return 1
}

# perftest_cm COMMAND...: a test of perftest -R. After a handshake over TCP the server begins to listen and the client
# connects, whichever is first (create_rdma_cm_connection in its perftest_communication.c; later versions try again). A
# client that is early is refused as 8, no such service, and crashes: then once more. Any other failure is one.
perftest_cm() {
    local try=$testlib_tmp/try.$BASHPID
    for _ in {1..10}; do
        if "$@" >"$try" 2>&1; then cat "$try"; return 0; fi
        cat "$try"
        grep -q 'REJECTED; error: 8' "$try" || return 1
    done
    return 1
}
