#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The interoperation matrix: cases of matrix.py played by interop_peer between rocemud and Linux's rdma_rxe, in both
# roles, over a cable that loses packets where the case says so.
#
#   $ns_a: rocemud on wire0, 10.88.0.1, fd00:88::1   veth   $ns_b: lossy_wire - tap - guest with rxe0, .2
#
# ROCEMU_FULL=1 plays all cases and writes docs/interop.md, else a pairwise subset and build/interop.md.
# ROCEMU_LANES: so many cases at a time. ROCEMU_RESUME=1 leaves out the cases that are ok in the results of the run
# before (build/interop-results.tsv) and adds to them.
# ROCEMU_REFERENCE=1 instead records what Linux against Linux gives, into reference.tsv.
# ROCEMU_CASES=REGEX plays only the cases whose name matches. ROCEMU_MATRIX_BUDGET: seconds after which no case begins.
# Then a soak: ROCEMU_SOAK_CONNECTIONS (100) for ROCEMU_SOAK_SECONDS (8) with 1 % loss; ROCEMU_SOAK_ONLY=1 only that;
# ROCEMU_SOAK_LOG=FILE keeps its figures.
# Captures of failed cases stay in $ROCEMU_LOGS/interop-captures.
# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/../netns/lib.sh"
# shellcheck source=tests/interop/lib.sh
. "$(dirname "$0")/lib.sh"
matrix=$interop/matrix.py
peer=$ROCEMU_BUILD/tests/interop/interop_peer
results=$ROCEMU_BUILD/interop-results.tsv
wire=$testlib_tmp/wire.sock
lanes=${ROCEMU_LANES:-6}
: "${ROCEMU_SOAK_SECONDS:=8}" "${ROCEMU_SOAK_CONNECTIONS:=100}"

in_guest() { guest_exec "$ns_a" "$ip_b" "$@"; }

net_for_matrix() {
    ns_make "$ns_a" && ns_make "$ns_b" || return
    ip link add name wire0 netns "$ns_a" type veth peer name wire-g netns "$ns_b" || return
    wire_up "$ns_a" $ip_a 4200 && ip -n "$ns_a" addr add fd00:88::1/64 dev wire0 nodad || return
    ip netns exec "$ns_a" ethtool -K wire0 tx off >/dev/null 2>&1
    guest_tap "$ns_b" 4200 wire-g || return
    mkdir -p "$ROCEMU_LOGS/interop-captures"
    ip netns exec "$ns_b" "$ROCEMU_BUILD/tests/interop/lossy_wire" wire-g tap0 "$wire" \
        "$ROCEMU_LOGS/interop-captures" >"$testlib_tmp/wire.log" 2>&1 </dev/null &
    at_exit end_process $!
    wait_until 10 grep -q ready "$testlib_tmp/wire.log" || { cat "$testlib_tmp/wire.log"; return 1; }
}

guest_for_matrix() {
    local mac
    guest_start "$ns_b" $ip_b/24 4200 fd00:88::2/64 || return
    # A guest that is busy does not wait for its neighbour's answer: it refuses to connect.
    mac=$(ip netns exec "$ns_a" cat /sys/class/net/wire0/address)
    in_guest 20 "for nic in eth0 vec0; do [ ! -e /sys/class/net/\$nic ] || break; done
        ip neigh replace $ip_a lladdr $mac nud permanent dev \$nic
        ip neigh replace fd00:88::1 lladdr $mac nud permanent dev \$nic"
}

# Linux against Linux: both processes in the guest, each with its own queue pairs on rxe0.
record_reference() {
    in_guest 300 "cat >/tmp/cases <<'.'
$("$matrix" reference)
.
        interop_peer serve rxe0 18700 1 >&2 & wait-listen 18700
        interop_peer drive rxe0 127.0.0.1 18700 1 /tmp/cases /tmp/results >&2; cat /tmp/results" >"$results" || { cat "$results"; return 1; }
    "$matrix" record "$results"
}

# with_guest LIMIT LANES VERB ARG...: interop_peer VERB attached to rocemud, with its server in the guest.
with_guest() {
    local server rc limit=$1 lanes=$2 verb=$3 port=$((18700 + RANDOM % 1000))
    shift 3
    in_guest "$limit" "interop_peer serve rxe0 $port $lanes" >"$testlib_tmp/server.log" 2>&1 &
    server=$!
    in_guest 25 "wait-listen $port" || { echo "the guest's side does not listen"; cat "$testlib_tmp/server.log"; return 2; }
    on_a "$peer" "$verb" rocemu0 "$ip_b" "$port" "$@"
    rc=$?
    wait "$server" || { echo "the guest's side: exit code $?"; cat "$testlib_tmp/server.log"; }
    return "$rc"
}

play_matrix() {
    local full=() done=() append=no out=$ROCEMU_BUILD/interop.md budget=${ROCEMU_MATRIX_BUDGET:-240} build
    local cases=$testlib_tmp/cases.txt
    if [ -n "${ROCEMU_FULL:-}" ]; then
        full=(--full)
        out=$testlib_root/docs/interop.md
        budget=${ROCEMU_MATRIX_BUDGET:-86400}
    fi
    if [ -n "${ROCEMU_RESUME:-}" ] && [ -s "$results" ]; then
        done=("$results")
        append=yes
    fi
    build=$(cat "$rocemud" "$ROCEMU_BUILD"/lib/provider/*.so | sha256sum | cut -c 1-12)
    "$matrix" cases "${full[@]}" "${done[@]}" | grep -E "^name=[^ ]*(${ROCEMU_CASES:-})" >"$cases"
    with_guest $((budget + 300)) "$lanes" drive "$lanes" "$cases" "$results" --wire "$wire" --budget "$budget" \
        --build "$build" --append "$append"
    [ $? -le 1 ] || return 1
    # Linux's requester may stand still for ever when messages are lost (README.md): what it did not end is played again.
    "$matrix" again "$results" "$cases" >"$cases.again"
    [ ! -s "$cases.again" ] || with_guest 600 1 drive 1 "$cases.again" "$results" --wire "$wire" --budget 0 \
        --build "$build" --append yes
    [ -z "${ROCEMU_CASES:-}" ] || { cat "$results"; out=/dev/null; }
    "$matrix" report "$results" "$(sed -n 's/.*ready, \(Linux [^,]*\).*/\1/p' "$guest_log" | tr -d '\r'), $engine" "$out"
}

rss() { awk '/VmRSS/ { print $2 }' "/proc/$daemon_a/status"; }

# 1 % loss, each connection one message a second in each direction.
play_soak() {
    local before
    before=$(rss)
    with_guest $((ROCEMU_SOAK_SECONDS + 200)) 1 soak "$ROCEMU_SOAK_CONNECTIONS" "$ROCEMU_SOAK_SECONDS" 1 "$wire" || return
    echo "resident memory of rocemud: $before KiB before, $(rss) KiB after"
    "$rocemu" counters --socket "$sock_a" | grep -E 'retr|nak|timeout|dup|drop|rnr' | grep -v ' 0$'
    [ -z "${ROCEMU_SOAK_LOG:-}" ] || cp "$testlib_tmp/log" "$ROCEMU_SOAK_LOG"
}

net_for_matrix || exit 1
if ! guest_for_matrix; then
    printf 'not ok  guest does not start\n'
    testlib_record failed "${testlib_prefix}guest-starts"
    finish_tests
fi
if [ -n "${ROCEMU_REFERENCE:-}" ]; then
    run_test reference 400 record_reference
    finish_tests
fi
run_here daemon-starts daemon_in daemon_a "$ns_a" "$sock_a" "$testlib_tmp/a.log" || finish_tests
at_exit daemons_down
[ -n "${ROCEMU_SOAK_ONLY:-}" ] || run_test matrix 90000 play_matrix
run_test soak $((ROCEMU_SOAK_SECONDS + 300)) play_soak
run_here daemon-ends-cleanly daemons_down
finish_tests
