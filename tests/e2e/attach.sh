#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user root limit=300
# Attaching: the rules of verbs, programs that load libibverbs by hand, python, fork and exec, nested runs, moved trees.
. "$(dirname "$0")/lib.sh"
bin=$ROCEMU_BUILD/tests/e2e
fabric_up || exit 1

sees_both() { "$@" | tee "$testlib_tmp/seen" && grep -q rocemu0 "$testlib_tmp/seen" && grep -q rocemu1 "$testlib_tmp/seen"; }
run_test verbs-rules 120 attached "$bin/verbs_rules" rocemu0 rocemu1
run_test check-bytes 60 attached "$bin/check_bytes" rocemu0 rocemu1 1
run_test check-bytes-two-processes 60 attached "$bin/check_bytes" --two-processes rocemu0 rocemu1 2
run_test check-bytes-one-device 60 attached "$bin/check_bytes" rocemu0 rocemu0 3
run_test dlopen 20 sees_both attached "$bin/attach_dlopen"
run_test dlopen-deepbind 20 sees_both attached "$bin/attach_dlopen" deepbind
python_devices() {
    PYTHONPATH=/usr/lib/python3/dist-packages /usr/bin/python3 -c 'import pyverbs.device' 2>/dev/null || { echo "no pyverbs here"; return 77; }
    sees_both attached env PYTHONPATH=/usr/lib/python3/dist-packages /usr/bin/python3 -c '
import pyverbs.device as d
for x in d.get_device_list():
    c = d.Context(name=x.name.decode())
    print(x.name.decode(), c.query_device().max_qp, c.query_gid_type(1, 3), c.query_gid(1, 3))
    c.close()'
}
run_test python 30 python_devices
run_test exec-inherits 20 sees_both attached sh -c 'sh -c "exec ibv_devices"'
run_test nested 20 sees_both attached "$rocemu" run -- ibv_devices
run_test keeps-preload 20 attached sh -c 'case $LD_PRELOAD in *librocemu-provider.so) ;; *) exit 1 ;; esac'
# shellcheck disable=SC2016
other_preload() { LD_PRELOAD=libm.so.6 "$rocemu" run -- sh -c 'case $LD_PRELOAD in */librocemu-provider.so:libm.so.6) ;; *) echo "$LD_PRELOAD"; exit 1 ;; esac'; }
run_test other-preload-stays 20 other_preload
# The binary, the provider and nothing else, somewhere else.
moved() {
    mkdir -p "$testlib_tmp/moved/bin" "$testlib_tmp/moved/lib"
    cp "$rocemu" "$testlib_tmp/moved/bin/" && cp "$ROCEMU_BUILD"/lib/provider/librocemu-*.so "$testlib_tmp/moved/lib/" || return
    sees_both "$testlib_tmp/moved/bin/rocemu" run -- ibv_devices && "$testlib_tmp/moved/bin/rocemu" run -- "$bin/attach_dlopen"
}
run_test moved 20 moved
# Without a daemon a program with the provider sees what it would see without it.
no_daemon() {
    local with without
    without=$(ibv_devices 2>&1)
    with=$(ROCEMU_SOCKET=/nowhere LD_PRELOAD=$ROCEMU_BUILD/lib/provider/librocemu-provider.so ibv_devices 2>&1)
    printf '%s\n' "$with"
    [ "$with" = "$without" ]
}
run_test no-daemon 20 no_daemon
run_test tail-call 20 sh -c "objdump -d --no-show-raw-insn '$ROCEMU_BUILD/lib/provider/librocemu-provider.so' | awk '/<dlopen>:/{f=1} f&&/^\$/{exit} f' | grep -E 'jmp +\*%'"
nothing_left() { [ "$(status_value 'len([x for x in s["sessions"] if not x.get("admin")])')" = 0 ]; }
run_test nothing-left 20 wait_until 10 nothing_left
run_here daemon-ends-cleanly fabric_down
finish_tests
