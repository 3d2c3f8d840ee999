# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Judges captures of RoCEv2 traffic. Source testlib.sh first.

# shellcheck disable=SC2154
frames() { python3 "$testlib_root/tests/support/frames.py" "$@"; }

# dissects FILE: tshark finds RoCEv2 in every frame to UDP port 4791 and marks none malformed. The protocols that
# are off guess from the payload of a SEND that it is theirs.
dissects() {
    local fields total roce malformed
    fields=$(tshark -r "$1" --disable-protocol rpcordma --disable-protocol nvme-rdma --disable-protocol iser --disable-protocol infiniband.eoib \
        -Y 'udp.dstport == 4791' -T fields -E separator=, -e infiniband.bth.opcode -e _ws.malformed \
        -e frame.number 2>/dev/null) || { echo "tshark cannot read $1"; return 1; }
    total=$(grep -c . <<<"$fields")
    roce=$(grep -c '^[0-9]' <<<"$fields")
    malformed=$(awk -F, '$2 != ""' <<<"$fields" | grep -c .)
    echo "$1: $total frames to port 4791, $roce dissected as RoCEv2, $malformed malformed"
    [ "$malformed" = 0 ] || awk -F, '$2 != ""' <<<"$fields" | head -5
    [ "$total" -gt 0 ] && [ "$roce" = "$total" ] && [ "$malformed" = 0 ]
}
