# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# tgt's iSER target and libiscsi's initiator, both in user space: discovery of a disk, and reads and writes that
# libiscsi's own tests check. Sourced with programs.sh.
iser_initiator=iqn.2026-11.test:initiator
iser_admin() { tgtadm --lld iser --mode "$@"; }

iser_target() {
    head -c 16777216 /dev/zero >"$testlib_tmp/disk"
    at_server tgtd -f --iscsi portal="$server_ip":3260 >"$testlib_tmp/tgtd.log" 2>&1 </dev/null &
    iser_daemon=$!
    at_exit end_process $iser_daemon
    # tgt lets initiators in by name: an address alone is not enough.
    wait_until 20 iser_admin target --op new --tid 1 -T iqn.2026-11.test:disk &&
        iser_admin logicalunit --op new --tid 1 --lun 1 -b "$testlib_tmp/disk" && iser_admin target --op bind --tid 1 -I ALL &&
        iser_admin target --op bind --tid 1 -Q $iser_initiator || { cat "$testlib_tmp/tgtd.log"; return 1; }
}
# iser_suite TEST: it ran, and nothing of it failed.
iser_suite() {
    at_client iscsi-test-cu -f -d -i $iser_initiator -t "$1" "$iser_disk" >"$testlib_tmp/out" 2>&1
    local rc=$?
    cat "$testlib_tmp/out"
    [ $rc = 0 ] && grep -q '\.\.\.passed' "$testlib_tmp/out" && ! grep -q -i 'failed *[1-9]' "$testlib_tmp/out"
}

iser_programs() {
    if ! command -v tgtd >/dev/null || ! command -v iscsi-test-cu >/dev/null; then
        skip_test "${testlib_prefix}iser" "tgt or libiscsi-bin is not installed"
        return
    fi
    local iser_disk=iser://$server_ip:3260/iqn.2026-11.test:disk/1
    local -x TGT_IPC_SOCKET=$testlib_tmp/tgtd.sock
    [[ iser-target =~ ${programs:-} ]] || return 0
    run_here iser-target iser_target || return
    program iser-inquiry 60 says 'Vendor:IET' at_client iscsi-inq -i $iser_initiator "$iser_disk"
    program iser-capacity 60 says 'Total size:16777216' at_client iscsi-readcapacity16 -i $iser_initiator "$iser_disk"
    program iser-read 60 iser_suite ALL.Read16.Simple
    program iser-write 60 iser_suite ALL.Write16.Simple
    end_process $iser_daemon
}
