#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user root limit=200
# What is refused says why in one line, with the exit code the documentation gives, and does nothing else.
. "$(dirname "$0")/lib.sh"

# refused CODE PATTERN COMMAND...: exits with CODE, prints exactly one line, which matches.
refused() {
    local want=$1 pattern=$2 out rc
    shift 2
    out=$("$@" 2>&1)
    rc=$?
    printf '%s\n' "$out"
    [ $rc = "$want" ] || { echo "exit code $rc, not $want"; return 1; }
    [ "$(wc -l <<<"$out")" = 1 ] || { echo "not one line"; return 1; }
    grep -Eqi -- "$pattern" <<<"$out" || { echo "does not match $pattern"; return 1; }
}
no_program() { refused "$@" "$rocemu" run -- touch "$testlib_tmp/started" && [ ! -e "$testlib_tmp/started" ]; }

# Somebody else listens on the default path of a user without XDG_RUNTIME_DIR: not even a hello is sent.
not_ours() {
    local directory=/tmp/rocemu-65534 said=$testlib_tmp/said
    [ "$(id -u)" = 0 ] || { echo "needs two users"; return 77; }
    as_user test -x "$rocemu" || { echo "nobody cannot run $rocemu"; return 77; }
    mkdir -m 755 "$directory" || { echo "$directory is in use"; return 77; }
    at_exit rm -rf "$directory"
    chown 65533 "$directory" || return
    setpriv --reuid=65533 --clear-groups /usr/bin/python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.umask(0)
s.bind(sys.argv[1])
s.listen()
while True: print(len(s.accept()[0].recv(4096)), flush=True)' "$directory/rocemud.sock" >"$said" 2>&1 &
    wait_until 10 test -S "$directory/rocemud.sock" || { cat "$said"; return 1; }
    refused 2 'another user' as_user env -u XDG_RUNTIME_DIR -u ROCEMU_SOCKET "$rocemu" run -- true &&
        wait_until 10 test -s "$said" && grep -qx 0 "$said" || { cat "$said"; return 1; }
}
run_test socket-of-another-user 30 not_ours
run_test run-without-daemon 20 no_program 2 'no daemon|not running|no rocemud'
bad_config() { # PATTERN TEXT
    printf '%s\n' "$2" >"$testlib_tmp/bad.toml"
    local out
    if out=$("$rocemud" --config "$testlib_tmp/bad.toml" --socket "$ROCEMU_SOCKET" 2>&1); then echo "accepted"; return 1; fi
    printf '%s\n' "$out"
    grep -Eq "bad\.toml:[0-9]+.*$1|$1.*bad\.toml:[0-9]+" <<<"$out"
}
run_test config-unknown-key 20 bad_config lcore '[daemon]
lcore = [0]'
run_test config-bad-type 20 bad_config mtu '[[device]]
name = "rocemu0"
port = "fabric"
mtu = "big"'
run_test config-out-of-range 20 bad_config mtu '[[device]]
name = "rocemu0"
port = "fabric"
mtu = 12'
run_test config-bad-syntax 20 bad_config '' '[daemon
x'
run_test config-missing-file 20 refused 1 'nowhere\.toml' "$rocemud" --config "$testlib_tmp/nowhere.toml"

run_test config-is-a-directory 20 refused 1 '/tmp: Is a directory' "$rocemud" --config /tmp --socket "$ROCEMU_SOCKET"
run_test config-empty-word 20 refused 1 '^rocemud: --config: .*empty' "$rocemud" --config "" --socket "$ROCEMU_SOCKET"

# not_started PATTERN TEXT: a configuration that reads well and cannot be carried out.
not_started() {
    printf '%s\n' "$2" >"$testlib_tmp/not.toml"
    refused 1 "$1" timeout -k 5 15 "$rocemud" --config "$testlib_tmp/not.toml" --socket "$ROCEMU_SOCKET" && [ ! -e "$ROCEMU_SOCKET" ]
}
run_test framesz-no-number 20 not_started 'rocemud: port net_af_packet: framesz=big: must be a number' '[[device]]
name = "rocemu0"
port = "net_af_packet,iface=lo,framesz=big"'
run_test socket-owner-too-large 20 not_started 'rocemud: daemon.socket_owner: .4294967296. is out of range' '[daemon]
socket_owner = "4294967296"'
run_test socket-group-too-large 20 not_started 'rocemud: daemon.socket_group: .99999999999999999999999. is out of range' '[daemon]
socket_group = "99999999999999999999999"'
run_test two-devices-one-interface 20 not_started 'rocemud: b: lo is the port of a already' '[[device]]
name = "a"
port = "net_af_packet,iface=lo"
[[device]]
name = "b"
port = "net_af_packet1,iface=lo"'
run_test too-many-addresses 20 not_started 'rocemud: rocemu0: more than 127 addresses' "[[device]]
name = \"rocemu0\"
addresses = [$(printf '"10.203.1.%s/24",' $(seq 1 128))]"

# The directory of the default socket, as a daemon whose socket was its owner's left it, opens with a socket for others.
open_to_others() {
    [ "$(id -u)" != 0 ] || { echo "would be the directory of root's own daemon"; return 77; }
    local pid seen
    mkdir -p -m 755 "$testlib_tmp/runtime" && mkdir -m 700 "$testlib_tmp/runtime/rocemu" || return
    printf '[daemon]\nsocket_mode = 0o666\n' >"$testlib_tmp/open.toml"
    umask 077
    start_daemon pid "$testlib_tmp/open.log" env -u ROCEMU_SOCKET "XDG_RUNTIME_DIR=$testlib_tmp/runtime" -- --config "$testlib_tmp/open.toml" || return
    seen=$(find "$testlib_tmp/runtime/rocemu" ! -perm -004 ! -name '*.lock')
    stop_daemon "$pid" "$testlib_tmp/open.log" || return
    [ -z "$seen" ] || { echo "closed to others:"; echo "$seen"; return 1; }
}
run_test open-to-others 30 open_to_others

no_such_cpu() {
    printf '[daemon]\nlcores = [1000]\n' >"$testlib_tmp/cpu.toml"
    refused 1 'lcores.*CPU 1000' "$rocemud" --config "$testlib_tmp/cpu.toml" --socket "$ROCEMU_SOCKET"
}
run_test lcores-without-such-cpu 20 no_such_cpu
run_test ready-fd-closed 20 refused 1 'ready-fd 77' "$rocemud" --ready-fd 77 --socket "$ROCEMU_SOCKET"
run_test unknown-option 20 refused 1 '^rocemud: .*--sockets' "$rocemud" --sockets x
run_test unknown-command 20 refused 1 '^rocemu: .*stats' "$rocemu" stats

# SIGHUP, as of a terminal that is closed or of logrotate: the daemon goes on, in a new file.
hang_up() {
    local daemon log=$testlib_tmp/hup.log
    printf '[daemon]\nlog_file = "%s"\n' "$log" >"$testlib_tmp/hup.toml"
    start_daemon daemon "$testlib_tmp/hup.err" --config "$testlib_tmp/hup.toml" --socket "$testlib_tmp/hup.sock" || return
    mv "$log" "$log.1" && kill -HUP "$daemon" && wait_until 10 test -e "$log" &&
        "$rocemu" status --socket "$testlib_tmp/hup.sock" >/dev/null && stop_daemon "$daemon" "$log" 15 && grep -q ending "$log"
}
run_test log-file-anew 60 hang_up

fabric_up || exit 1
impairments_in_status() {
    "$rocemu" impair rocemu1 --drop 1.5% --delay 20us && "$rocemu" status &&
        [ "$(status_value '[(d["impairments"]["drop_ppm"], d["impairments"]["delay_ns"]) for d in s["devices"]]')" \
            = "[(0, 0), (15000, 20000)]" ] && "$rocemu" impair rocemu1
}
run_test impairments-in-status 20 impairments_in_status
run_test second-daemon 20 refused 1 'already|in use|running' "$rocemud" --socket "$ROCEMU_SOCKET"
run_test program-exit-code 20 refused 3 . "$rocemu" run -- sh -c 'echo x; exit 3'
run_test program-missing 20 refused 127 'no-such-program' "$rocemu" run -- no-such-program
# Captures. tap_on FILE [PREFIX...]: one of rocemu0 that has begun; tap_ends CODE [PATTERN]: how it ends, and says so.
tap_on() {
    local file=$1
    shift
    : >"$testlib_tmp/tap"
    "$@" "$rocemu" capture -d rocemu0 -w "$file" >"$testlib_tmp/tap" 2>&1 </dev/null &
    tap=$!
    wait_until 20 grep -q capturing "$testlib_tmp/tap"
}
tap_ends() {
    local rc
    kill -TERM "$tap"
    wait "$tap"
    rc=$?
    cat "$testlib_tmp/tap"
    [ $rc = "$1" ] && grep -Eq -- "${2:-[1-9][0-9]* frames captured, 0 missed}" "$testlib_tmp/tap"
}
traffic() { pair ibv_rc_pingpong -g 1 -n 100 >/dev/null; }
full_file() { tap_on /dev/full && traffic && tap_ends 1 '^rocemu: /dev/full: No space left .* not complete'; }
reader_gone() {
    mkfifo "$testlib_tmp/fifo"
    head -c 100 "$testlib_tmp/fifo" >/dev/null &
    tap_on "$testlib_tmp/fifo" && traffic && tap_ends 1 'fifo: Broken pipe.* not complete'
}
# The file system, of the tool's own namespace, holds 64 KiB: what is in the file is whole frames.
full_file_system() {
    local dir=$testlib_tmp/small
    mkdir "$dir"
    # shellcheck disable=SC2016
    tap_on "$dir/f" unshare -m sh -c 'mount -t tmpfs -o size=64k none "$0" && exec "$@"' "$dir" && traffic || return
    whole_frames() { [ "$(stat -c %s "$1")" -gt 50000 ] && "$rocemu" icrc-check "$1"; }
    wait_until 10 whole_frames "/proc/$tap/root$dir/f" || { whole_frames "/proc/$tap/root$dir/f"; return 1; }
    tap_ends 1 '/f: No space left .* not complete'
}
# A terminal that nobody reads takes a little and then nothing: the capture waits for it, the daemon does not.
held_up() {
    local terminal
    python3 -c 'import os, signal, tty
master, slave = os.openpty()
tty.setraw(slave)
print(os.ttyname(slave), flush=True)
signal.pause()' >"$testlib_tmp/pty" &
    terminal=$!
    wait_until 10 test -s "$testlib_tmp/pty" && tap_on "$(cat "$testlib_tmp/pty")" && traffic && traffic &&
        timeout 10 "$rocemu" status >/dev/null || return
    end_process $terminal
    tap_ends 1 'Input/output error.* not complete'
}
no_such_device() {
    echo kept >"$testlib_tmp/kept"
    refused 1 'no device nosuch' "$rocemu" capture -d nosuch -w "$testlib_tmp/kept" && grep -q kept "$testlib_tmp/kept" || return
    refused 1 'no device nosuch' "$rocemu" capture -d nosuch -w "$testlib_tmp/new" && [ ! -e "$testlib_tmp/new" ]
}
second_capture() {
    local file=$testlib_tmp/first.pcapng
    tap_on "$file" && traffic || return
    refused 1 'rocemu0: .*busy' "$rocemu" capture -d rocemu0 -w "$file" && traffic && tap_ends 0 && "$rocemu" icrc-check "$file"
}
# Ends by the signal, not by the SIGKILL behind it.
fifo_without_reader() {
    mkfifo "$testlib_tmp/nobody"
    timeout -k 5 1 "$rocemu" capture -d rocemu0 -w "$testlib_tmp/nobody"
    [ $? = 124 ]
}
run_test capture-full-file 30 full_file
run_test capture-reader-gone 30 reader_gone
run_test capture-held-up 40 held_up
if [ "$(id -u)" = 0 ]; then run_test capture-full-file-system 40 full_file_system
else skip_test "${testlib_prefix}capture-full-file-system" "needs root, to make one"; fi
run_test capture-no-such-device 20 no_such_device
run_test capture-twice 40 second_capture
run_test capture-fifo-without-reader 20 fifo_without_reader

refused_permission() {
    chmod 000 "$ROCEMU_SOCKET"
    refused 2 'permission|refused' "$rocemu" run -- touch "$testlib_tmp/started2" && [ ! -e "$testlib_tmp/started2" ]
}
if [ "$(id -u)" = 0 ]; then skip_test "${testlib_prefix}refused-permission" "root is refused nothing"
else run_test refused-permission 20 refused_permission; fi
finish_tests
