#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The pingpongs of libibverbs, and perftest's ib_{send,write,read,atomic}_{bw,lat} with every connection type and with each of
# the options that change what the device must do: on the fabric of one daemon (`perftest_table.sh fabric`), or between two
# network namespaces (`perftest_table.sh netns`, as root). Three to six minutes each; `ROCEMU_FULL=1 scripts/test netns` runs
# both. What a program itself does not offer is skipped with its own words.
where=${1:-${ROCEMU_WHERE:-fabric}}
if [ "$where" = netns ]; then
    # shellcheck source=tests/netns/lib.sh
    . "$(dirname "$0")/lib.sh"
    net_up 1500 && daemons_up || exit 1
    gid=@GID@
    common=(-F -x @GID@ -n 200)
else
    # shellcheck source=tests/e2e/lib.sh
    . "$(dirname "$0")/../e2e/lib.sh"
    fabric_up || exit 1
    gid=3
    common=(-F -n 200)
fi

# shellcheck disable=SC2317
once() {
    local out=$testlib_tmp/once.$BASHPID rc
    pair "$@" >"$out" 2>&1
    rc=$?
    cat "$out"
    [ $rc = 0 ] && return 0
    grep -m 1 -E 'not available|not supported|not relevant|cannot be used|Unsupported|only supported|support only|can.t be used' "$out" && return 77
    return $rc
}

# table PROGRAM TYPES OPTION-LIST...
table() {
    local program=$1 types=$2 type options name
    shift 2
    for type in $types; do
        for options; do
            name=${options//--/}
            # shellcheck disable=SC2086
            run_test "$where/$program-$type${name:+-${name// /}}" 90 once "$program" "${common[@]}" -c "$type" $options
        done
    done
}

# pingpong PROGRAM OPTION-LIST...
pingpong() {
    local program=$1 options name
    shift
    for options; do
        name=${options//-/}
        # shellcheck disable=SC2086
        run_test "$where/$program${name:+-${name// /}}" 90 once "$program" -g "$gid" $options
    done
}

pingpong ibv_rc_pingpong "" "-e" "-c" "-e -c" "-m 256" "-m 512" "-m 1024" "-s 1" "-s 4097 -c" "-s 1048576 -n 50 -c"
pingpong ibv_uc_pingpong "" "-e" "-c" "-m 256 -c" "-m 512" "-m 1024" "-s 1" "-s 4097 -c"
pingpong ibv_ud_pingpong "" "-e" "-c" "-s 1" "-s 1024 -c"
pingpong ibv_srq_pingpong "" "-e" "-c" "-q 1" "-m 256" "-m 512" "-m 1024" "-s 1" "-s 65537 -n 100 -c"
# Its MTU is 2048 unless told otherwise, and -c is its number of clients. All XRC programs share domains of these names.
domains=(/tmp/xrc_domain /tmp/xrc_domain_client /tmp/xrc_domain_server)
rm -f "${domains[@]}"
pingpong ibv_xsrq_pingpong "-m 1024" "-m 1024 -e" "-m 256" "-m 1024 -s 1" "-m 1024 -s 100000 -n 50"
table ib_send_bw "RC UC UD XRC" "" "-e" "-q 16" "-b" "-q 16 -b" "-e -b" "--use-srq" "--use-srq -q 16" "--use-srq -e" "--use-srq -b"
table ib_send_lat "RC UC UD XRC" "" "-e" "--use-srq" "--use-srq -e"
table ib_write_bw "RC UC XRC" "" "-e" "-q 16" "-b" "-q 16 -b"
table ib_write_lat "RC UC XRC" "" "-e"
table ib_read_bw "RC XRC" "" "-e" "-q 16" "-b" "-q 16 -b"
table ib_read_lat "RC XRC" "" "-e"
for kind in FETCH_AND_ADD CMP_AND_SWAP; do
    table ib_atomic_bw "RC XRC" "-A $kind" "-A $kind -e" "-A $kind -q 16" "-A $kind -b" "-A $kind -q 16 -b"
    table ib_atomic_lat "RC XRC" "-A $kind" "-A $kind -e"
done
rm -f "${domains[@]}"
if [ "$where" = netns ]; then run_here daemons-end-cleanly daemons_down; else run_here daemon-ends-cleanly fabric_down; fi
finish_tests
