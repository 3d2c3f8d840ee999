#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user root limit=120
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

no_such_cpu() {
    printf '[daemon]\nlcores = [1000]\n' >"$testlib_tmp/cpu.toml"
    refused 1 'lcores.*CPU 1000' "$rocemud" --config "$testlib_tmp/cpu.toml" --socket "$ROCEMU_SOCKET"
}
run_test lcores-without-such-cpu 20 no_such_cpu
run_test ready-fd-closed 20 refused 1 'ready-fd 77' "$rocemud" --ready-fd 77 --socket "$ROCEMU_SOCKET"
run_test unknown-option 20 refused 1 '^rocemud: .*--sockets' "$rocemud" --sockets x
run_test unknown-command 20 refused 1 '^rocemu: .*stats' "$rocemu" stats

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
refused_permission() {
    chmod 000 "$ROCEMU_SOCKET"
    refused 2 'permission|refused' "$rocemu" run -- touch "$testlib_tmp/started2" && [ ! -e "$testlib_tmp/started2" ]
}
if [ "$(id -u)" = 0 ]; then skip_test "${testlib_prefix}refused-permission" "root is refused nothing"
else run_test refused-permission 20 refused_permission; fi
finish_tests
