#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# By hand: perftest's ib_{send,write,read,atomic}_{bw,lat} with every connection type and with each of the options that
# change what the device must do, on the fabric of one daemon (`perftest_table.sh fabric`) or between two network
# namespaces (`perftest_table.sh netns`, as root). What a program itself does not offer is skipped with its own words.
where=${1:-fabric}
if [ "$where" = netns ]; then
    # shellcheck source=tests/netns/lib.sh
    . "$(dirname "$0")/lib.sh"
    net_up 1500 && daemons_up || exit 1
    common=(-F -x @GID@ -n 200)
else
    # shellcheck source=tests/e2e/lib.sh
    . "$(dirname "$0")/../e2e/lib.sh"
    fabric_up || exit 1
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

table ib_send_bw "RC UC UD" "" "-e" "-q 16" "-b" "-q 16 -b" "-e -b" "--use-srq" "--use-srq -q 16" "--use-srq -e" "--use-srq -b"
table ib_send_lat "RC UC UD" "" "-e" "--use-srq" "--use-srq -e"
table ib_write_bw "RC UC" "" "-e" "-q 16" "-b" "-q 16 -b"
table ib_write_lat "RC UC" "" "-e"
table ib_read_bw "RC" "" "-e" "-q 16" "-b" "-q 16 -b"
table ib_read_lat "RC" "" "-e"
for kind in FETCH_AND_ADD CMP_AND_SWAP; do
    table ib_atomic_bw "RC" "-A $kind" "-A $kind -e" "-A $kind -q 16" "-A $kind -b"
    table ib_atomic_lat "RC" "-A $kind" "-A $kind -e"
done
if [ "$where" = netns ]; then run_here daemons-end-cleanly daemons_down; else run_here daemon-ends-cleanly fabric_down; fi
finish_tests
