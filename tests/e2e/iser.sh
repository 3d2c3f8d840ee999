#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: (programs.sh)
# tgt's iSER target and libiscsi's initiator in user space: discovery of a disk, and reads and writes that libiscsi's own
# tests check.
# [case38]
. "$(dirname "$0")/lib.sh"
if ! command -v tgtd >/dev/null || ! command -v iscsi-test-cu >/dev/null; then
    skip_test "${testlib_prefix}iser" "tgt or libiscsi-bin is not installed"
    finish_tests
fi
fabric_up || exit 1
export TGT_IPC_SOCKET=$testlib_tmp/tgtd.sock
initiator=iqn.2026-11.test:initiator
disk=iser://10.203.0.1:3260/iqn.2026-11.test:disk/1
admin() { tgtadm --lld iser --mode "$@"; }

target_up() {
    head -c 16777216 /dev/zero >"$testlib_tmp/disk"
    attached tgtd -f --iscsi portal=10.203.0.1:3260 >"$testlib_tmp/tgtd.log" 2>&1 </dev/null &
    target=$!
    at_exit end_process $target
    # tgt lets initiators in by name: an address alone is not enough.
    wait_until 20 admin target --op new --tid 1 -T iqn.2026-11.test:disk &&
        admin logicalunit --op new --tid 1 --lun 1 -b "$testlib_tmp/disk" && admin target --op bind --tid 1 -I ALL &&
        admin target --op bind --tid 1 -Q $initiator || { cat "$testlib_tmp/tgtd.log"; return 1; }
}
capacity() { attached iscsi-readcapacity16 -i $initiator $disk | tee "$testlib_tmp/out" && grep -q 'Total size:16777216' "$testlib_tmp/out"; }
# suite NAME COUNT: so many tests of it run, and none fails.
suite() {
    attached iscsi-test-cu -f -d -i $initiator -t "$1" $disk >"$testlib_tmp/out" 2>&1
    local rc=$?
    cat "$testlib_tmp/out"
    [ $rc = 0 ] && [ "$(grep -c '\.\.\.passed' "$testlib_tmp/out")" -ge "$2" ] && ! grep -q -i 'failed *[1-9]' "$testlib_tmp/out"
}

run_here target target_up || finish_tests
run_test capacity 60 capacity
run_test read 60 suite ALL.Read16.Simple 1
run_test write 60 suite ALL.Write16.Simple 1

end_process $target
run_here daemon-ends-cleanly fabric_down
finish_tests
