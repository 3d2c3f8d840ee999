# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs named tests with a time limit, prints one line for each, keeps the log of those that fail, and counts.
# Sourced by scripts/test and by every test script. A test is a command or a shell function; it passes with exit
# code 0 and skips with 77 (its last line of output is the reason). Processes are ended by their id, with the
# children they have at that moment, never by name.
#
#   ROCEMU_LOGS     where logs of failed tests stay      (default: build/test-logs)
#   ROCEMU_RESULTS  file that collects results; a script started by another one inherits it, so that only the
#                   outermost prints the totals
#   ROCEMU_ONLY     run only tests whose name matches this extended regular expression

testlib_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${ROCEMU_BUILD:=$testlib_root/build}"
: "${ROCEMU_LOGS:=$testlib_root/build/test-logs}"
export ROCEMU_BUILD ROCEMU_LOGS
rocemud=$ROCEMU_BUILD/apps/rocemud
# shellcheck disable=SC2034
rocemu=$ROCEMU_BUILD/apps/rocemu
testlib_prefix=${ROCEMU_PREFIX:-}
testlib_cleanups=()
if [ -z "${ROCEMU_RESULTS:-}" ]; then
    ROCEMU_RESULTS=$(mktemp)
    testlib_outermost=1
else
    testlib_outermost=0
fi
export ROCEMU_RESULTS

# The directory for this script's state; removed at exit.
testlib_tmp=$(mktemp -d "${TMPDIR:-/tmp}/rocemu-test.XXXXXX")
chmod 755 "$testlib_tmp"

# at_exit COMMAND ARG...: run when the script ends, last registered first.
at_exit() { testlib_cleanups+=("$(printf '%q ' "$@")"); }

testlib_finish() {
    local rc=$? i
    trap - EXIT INT TERM
    for ((i = ${#testlib_cleanups[@]} - 1; i >= 0; i--)); do eval "${testlib_cleanups[i]}" || true; done
    rm -rf "$testlib_tmp"
    [ "$testlib_outermost" = 0 ] || rm -f "$ROCEMU_RESULTS"
    exit "$rc"
}
trap testlib_finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# descendants PID: PID's children and theirs, deepest last.
descendants() {
    local kids k
    kids=$(cat "/proc/$1/task/"*/children 2>/dev/null) || true
    for k in $kids; do echo "$k"; descendants "$k"; done
}

# end_process PID [GRACE_SECONDS]: SIGTERM to it, SIGKILL to it and its descendants after the grace time.
end_process() {
    local pid=$1 tree i
    kill -0 "$pid" 2>/dev/null || return 0
    tree=$(descendants "$pid")
    # shellcheck disable=SC2086
    kill "$pid" $tree 2>/dev/null
    for ((i = 0; i < ${2:-5} * 20; i++)); do
        # shellcheck disable=SC2086
        kill -0 "$pid" $tree 2>/dev/null || return 0
        sleep 0.05
    done
    # shellcheck disable=SC2086
    kill -9 "$pid" $tree 2>/dev/null
    return 0
}

# A test's own subshell: what it registered with at_exit is done, and what it left running is ended, when it ends.
testlib_child() {
    testlib_cleanups=()
    trap testlib_child_exit EXIT
    trap 'exit 143' TERM
    "$@"
}
testlib_child_exit() {
    local rc=$? i me=$BASHPID
    trap - EXIT
    for ((i = ${#testlib_cleanups[@]} - 1; i >= 0; i--)); do eval "${testlib_cleanups[i]}" || true; done
    for i in $(descendants "$me"); do end_process "$i" 2; done 2>/dev/null
    exit "$rc"
}

# with_limit SECONDS COMMAND ARG...: runs a command or function; 124 when it took longer.
with_limit() {
    local limit=$1 pid timer first rc
    shift
    (testlib_child "$@") &
    pid=$!
    sleep "$limit" &
    timer=$!
    wait -n -p first "$pid" "$timer"
    rc=$?
    if [ "${first:-}" = "$timer" ]; then
        end_process "$pid" 2
        wait "$pid" 2>/dev/null
        return 124
    fi
    kill "$timer" 2>/dev/null
    wait "$timer" 2>/dev/null
    return "$rc"
}

testlib_record() { echo "$1 $2" >>"$ROCEMU_RESULTS"; }

# run_test NAME LIMIT_SECONDS COMMAND ARG...: in a process of its own.
run_test() {
    local name=$testlib_prefix$1 limit=$2
    shift 2
    testlib_judge "$name" "$limit" with_limit "$limit" "$@"
}

# run_beside NAME LIMIT COMMAND ARG...: run_test in the background, for tests that mostly wait; at most 10 at once.
# wait_beside: until all of them have ended.
testlib_beside=()
run_beside() {
    (
        trap - EXIT
        testlib_slot=${#testlib_beside[@]}
        testlib_tmp=$testlib_tmp/beside.$testlib_slot
        mkdir -p "$testlib_tmp"
        run_test "$@"
    ) &
    testlib_beside+=($!)
}
wait_beside() {
    wait "${testlib_beside[@]}"
    testlib_beside=()
}

# run_here NAME COMMAND ARG...: in this shell and without a limit, for what needs to wait for this shell's children.
run_here() {
    local name=$testlib_prefix$1
    shift
    testlib_judge "$name" 0 "$@"
}

testlib_judge() {
    local name=$1 limit=$2 log rc t0 t
    shift 2
    if [ -n "${ROCEMU_ONLY:-}" ] && ! [[ $name =~ $ROCEMU_ONLY ]] && [ "$limit" != 0 ]; then return 0; fi
    log=$testlib_tmp/log
    t0=$EPOCHREALTIME
    "$@" >"$log" 2>&1 </dev/null
    rc=$?
    t=$(awk -v a="$t0" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f s", b - a }')
    case $rc in
        0)
            printf 'ok      %s (%s)\n' "$name" "$t"
            testlib_record ok "$name"
            return 0
            ;;
        77)
            skip_test "$name" "$(tail -n 1 "$log")"
            return 0
            ;;
    esac
    testlib_record failed "$name"
    mkdir -p "$ROCEMU_LOGS"
    local kept=$ROCEMU_LOGS/${name//[^A-Za-z0-9._-]/_}.log
    cp "$log" "$kept"
    [ $rc = 124 ] && printf 'not ok  %s: not finished after %s s; log: %s\n' "$name" "$limit" "$kept"
    [ $rc = 124 ] || printf 'not ok  %s: exit code %s (%s); log: %s\n' "$name" "$rc" "$t" "$kept"
    tail -n "${ROCEMU_TAIL:-15}" "$log" | sed 's/^/        | /'
    return 1
}

# skip_test NAME REASON: a test that cannot run here.
skip_test() {
    printf 'skip    %s: %s\n' "$1" "$2"
    testlib_record skipped "$1"
}

# totals: prints `N passed, N failed[, N skipped]`; the exit code says whether all is well (no test at all is not).
totals() {
    local p f s
    p=$(grep -c '^ok ' "$ROCEMU_RESULTS")
    f=$(grep -c '^failed ' "$ROCEMU_RESULTS")
    s=$(grep -c '^skipped ' "$ROCEMU_RESULTS")
    if [ "$f" != 0 ]; then
        echo "failed:"
        sed -n 's/^failed /    /p' "$ROCEMU_RESULTS"
    fi
    echo "$p passed, $f failed$([ "$s" = 0 ] || echo ", $s skipped")"
    [ "$f" = 0 ] && [ $((p + s)) != 0 ]
}

# finish_tests: the last line of a test script.
finish_tests() {
    [ "$testlib_outermost" = 0 ] || { totals; exit; }
    exit 0
}

# listens PORT [NETNS]: whether something listens on this TCP port.
listens() {
    local hex
    hex=$(printf ':%04X' "$1")
    ${2:+ip netns exec "$2"} cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        awk -v h="$hex" 'substr($2, length($2) - 4) == h && $4 == "0A" { found = 1 } END { exit !found }'
}

# wait_until SECONDS COMMAND ARG...: polls until the command succeeds.
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

# free_port: sets `port` to a TCP port that nothing listens on now; tests that run side by side have ports of their own.
free_port() {
    if [ -n "${testlib_slot:-}" ]; then port=$((20000 + testlib_slot * 1000 + RANDOM % 1000)); else port=$((20000 + RANDOM % 12000)); fi
    while listens "$port" "$@"; do port=$((port + 1)); done
}

# start_daemon PIDVAR LOG [PREFIX... --] [ROCEMUD ARG...]: starts rocemud and waits until it says it is ready.
# PREFIX is a command in front of it, such as `ip netns exec NAME`.
start_daemon() {
    local var=$1 log=$2 prefix=() fifo
    shift 2
    if [[ " $* " == *" -- "* ]]; then
        while [ "$1" != -- ]; do prefix+=("$1"); shift; done
        shift
    fi
    fifo=$(mktemp -u "$testlib_tmp/ready.XXXXXX")
    mkfifo "$fifo"
    exec {testlib_fd}<>"$fifo"
    rm "$fifo"
    "${prefix[@]}" "$rocemud" --ready-fd 9 "$@" 9>&"$testlib_fd" {testlib_fd}>&- >"$log" 2>&1 </dev/null &
    printf -v "$var" %s $!
    local end=$((SECONDS + ${ROCEMU_START_LIMIT:-30})) ok=1
    while ! read -r -t 0.2 -N 1 -u "$testlib_fd" _; do
        if ! kill -0 "${!var}" 2>/dev/null || [ $SECONDS -ge $end ]; then ok=0; break; fi
    done
    exec {testlib_fd}>&-
    if [ $ok = 0 ]; then
        echo "rocemud did not become ready; its log:"
        tail -n 30 "$log"
        end_process "${!var}"
        return 1
    fi
}

# stop_daemon PID LOG [LIMIT_SECONDS]: SIGTERM; fails, and shows the log, unless it then ends by itself with exit
# code 0. Only in the shell that started it (see run_here).
stop_daemon() {
    local rc
    kill "$1" 2>/dev/null
    wait_until "${3:-10}" testlib_gone "$1" || { echo "rocemud ($1) does not end"; kill -9 "$1"; }
    wait "$1"
    rc=$?
    [ $rc = 0 ] || { echo "rocemud ended with $rc; its log:"; tail -n 40 "$2"; }
    return $rc
}
testlib_gone() { ! kill -0 "$1" 2>/dev/null; }

# as_user COMMAND ARG...: as an ordinary user, with a home and a runtime directory of its own. Root becomes
# uid 65534; an ordinary user stays itself.
as_user() {
    local home=$testlib_tmp/home
    if [ "$(id -u)" != 0 ]; then "$@"; return; fi
    [ -d "$home" ] || { install -d -o 65534 -g 65534 -m 700 "$home" "$home/run"; }
    env -u SUDO_USER HOME="$home" XDG_RUNTIME_DIR="$home/run" USER=nobody TMPDIR=/tmp \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs "$@"
}
