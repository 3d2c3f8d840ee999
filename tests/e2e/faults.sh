#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user asan limit=900
# 1 % drop, 0.5 % duplicate, 0.5 % reorder, 0.5 % corrupt on both links of the fabric, seeds 1 to 20: every byte of
# SEND, WRITE and READ of random sizes arrives, and the counters account for each injected fault.
. "$(dirname "$0")/lib.sh"
check_bytes=$ROCEMU_BUILD/tests/e2e/check_bytes

one_seed() {
    local seed=$1
    cat >"$testlib_tmp/faults.toml" <<TOML
[daemon]
log_level = "warn"

[[device]]
name = "rocemu0"
port = "fabric"
addresses = ["10.203.0.1/24"]
impairments = { drop = 0.01, duplicate = 0.005, reorder = 0.005, corrupt = 0.005, seed = $seed }

[[device]]
name = "rocemu1"
port = "fabric"
addresses = ["10.203.0.2/24"]
impairments = { drop = 0.01, duplicate = 0.005, reorder = 0.005, corrupt = 0.005, seed = $((seed + 1000)) }
TOML
    fabric_up --config "$testlib_tmp/faults.toml" || return
    attached "$check_bytes" rocemu0 rocemu1 "$seed" || return
    "$rocemu" counters --json >"$testlib_tmp/counters.json" || return
    cat "$testlib_tmp/counters.json"
    python3 - "$testlib_tmp/counters.json" <<'PY' || return
import json, sys
c = json.load(open(sys.argv[1]))
total = {}
for device in c.values():
    for name, value in device.items():
        total[name] = total.get(name, 0) + value
def say(ok, text):
    print("ok" if ok else "WRONG", text)
    return ok
good = True
for kind in ("dropped", "duplicated", "reordered", "corrupted"):
    good &= say(total["fault_" + kind] > 0, f"fault_{kind} = {total['fault_' + kind]}")
sent = total["tx_packets"] + total["fault_duplicated"] - total["fault_dropped"]
got = total["rx_packets"] + total["rx_icrc_encapsulated"] + total["rx_malformed"] + total["rx_other"] + \
    total["rx_unknown_qp"] + total["rx_wrong_peer"] + total["rx_no_pkey_match"]
good &= say(sent == got, f"sent + duplicated - dropped = {sent}, received in all = {got}")
# A corrupted frame fails its ICRC or its parsing, unless the flipped bit lay in a masked field.
bad = total["rx_icrc_encapsulated"] + total["rx_malformed"] + total["rx_other"]
good &= say(bad <= total["fault_corrupted"], f"rejected {bad} of {total['fault_corrupted']} corrupted")
good &= say(bad * 10 >= total["fault_corrupted"] * 8, "most corrupted frames were rejected")
good &= say(total["retransmitted_packets"] > 0, f"retransmitted {total['retransmitted_packets']}")
sys.exit(0 if good else 1)
PY
    fabric_down
}
for seed in $(seq 1 "${ROCEMU_SEEDS:-20}"); do run_test "seed-$seed" 120 one_seed "$seed"; done
finish_tests
