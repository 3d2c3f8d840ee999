#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user asan limit=300
# Each value of daemon.payload in turn: the rules of the verbs hold, every byte arrives over a faulty link, and the
# counters say which path carried them.
. "$(dirname "$0")/lib.sh"
bin=$ROCEMU_BUILD/tests/e2e

# carried PATH: the counters say that this path was used, or not, as it must be where PATH is preferred.
carried() {
    "$rocemu" counters --json >"$testlib_tmp/counters.json" || return
    python3 - "$1" "$testlib_tmp/counters.json" <<'PY'
import json, sys
total = {}
for device in json.load(open(sys.argv[2])).values():
    for name, value in device.items():
        total[name] = total.get(name, 0) + value
print({n: v for n, v in total.items() if n.startswith("payload_")})
used = {n for n in ("captured", "deferred", "mapped", "process_vm", "agent") if total[f"payload_{n}_bytes"] > 0}
# Inline data counts as mapped too: what a file carries is far more.
if total["payload_mapped_bytes"] < 1 << 20: used.discard("mapped")
if sys.argv[1] == "share-private":
    # Memory that was private has carried all that was not captured; process_vm none of it.
    print("used", used)
    sys.exit(0 if used == {"captured", "mapped"} else 1)
may = {"auto": {"captured", "mapped", "process_vm"}, "capture": {"captured", "process_vm"}, "pull": {"process_vm"},
       "deferred": {"captured", "deferred", "mapped", "process_vm"}, "share": {"captured", "mapped", "process_vm"},
       "agent": {"agent"}}[sys.argv[1]]
must = {p: {"captured", "mapped"} for p in ("auto", "share")}.get(sys.argv[1], may)
print("used", used, "expected", must)
sys.exit(0 if must <= used <= may else 1)
PY
}
preferred() {
    local path=$1
    cat >"$testlib_tmp/path.toml" <<TOML
[daemon]
payload = "$path"
log_level = "warn"

[[device]]
name = "rocemu0"
port = "fabric"
addresses = ["10.203.0.1/24"]
impairments = { drop = 0.01, duplicate = 0.005, reorder = 0.005, corrupt = 0.005, seed = 71 }

[[device]]
name = "rocemu1"
port = "fabric"
addresses = ["10.203.0.2/24"]
impairments = { drop = 0.01, duplicate = 0.005, reorder = 0.005, corrupt = 0.005, seed = 72 }
TOML
    fabric_up --config "$testlib_tmp/path.toml" || return
    attached "$bin/check_bytes" --messages 200 rocemu0 rocemu1 31 || return
    if [ "$path" = share ]; then carried share-private || return; fi
    attached "$bin/check_bytes" --shared --messages 200 rocemu0 rocemu1 32 &&
        attached "$bin/check_bytes" --two-processes --qps 4 --messages 60 rocemu0 rocemu1 33 || return
    carried "$path" || return
    "$rocemu" impair rocemu0 && "$rocemu" impair rocemu1 || return
    attached "$bin/verbs_rules" rocemu0 rocemu1 && pair ib_send_bw -F -n 500 && fabric_down
}

# Rule 10 of docs/adr/0012: no ibv_poll_cq copies gigabytes. Of a long READ nothing is deferred, of a long SEND only
# the beginning.
deferred_bytes() { "$rocemu" counters --json | python3 -c 'import json, sys
print(sum(d["payload_deferred_bytes"] for d in json.load(sys.stdin).values()))'; }
long_messages() {
    local size=$((1 << 20)) sends=20 before
    printf '[daemon]\npayload = "deferred"\n' >"$testlib_tmp/path.toml"
    fabric_up --config "$testlib_tmp/path.toml" || return
    pair ib_read_bw -F -s $size -n 20 && before=$(deferred_bytes) && pair ib_send_bw -F -s $size -n $sends || return
    local after
    after=$(deferred_bytes)
    echo "deferred of READs: $before bytes, of SENDs: $after"
    [ "$before" = 0 ] && [ "$after" -gt 0 ] && [ "$after" -le $((sends * 256 << 10)) ] && fabric_down
}
# What the daemon reads where it lies is not copied before.
mapped_is_not_captured() {
    local memory captured mapped
    memory=$(mktemp /dev/shm/rocemu-test.XXXXXX) && truncate -s 4M "$memory" || return
    printf '[daemon]\npayload = "auto"\n' >"$testlib_tmp/path.toml"
    fabric_up --config "$testlib_tmp/path.toml" && pair ib_write_bw -F -s 65536 -n 200 --mmap="$memory"
    local rc=$?
    rm -f "$memory"
    [ $rc = 0 ] || return
    read -r captured mapped < <("$rocemu" counters --json | python3 -c 'import json, sys
devices = json.load(sys.stdin).values()
print(*(sum(d[f"payload_{path}_bytes"] for d in devices) for path in ("captured", "mapped")))')
    echo "captured $captured bytes, mapped $mapped"
    [ "$captured" = 0 ] && [ "$mapped" -ge $((2 * 200 * 65536)) ] && fabric_down
}
# A program whose memory cannot be converted is served as ever, and the log says why. (A limit of file sizes is one reason
# of several; the unit test has others.)
share_refused() {
    printf '[daemon]\npayload = "share"\n' >"$testlib_tmp/path.toml"
    fabric_up --config "$testlib_tmp/path.toml" || return
    (ulimit -f 1000000 && attached "$bin/check_bytes" --messages 200 rocemu0 rocemu1 34) || return
    grep 'stays private: File too large' "$daemon_log" && carried capture && fabric_down
}
# userfaultfd(2), UFFD_USER_MODE_ONLY: containers may forbid it.
share() {
    if ! python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(323, 1) < 0)'; then
        echo "userfaultfd is forbidden here"
        return 77
    fi
    preferred share
}
for path in auto capture deferred pull agent; do run_test "$path" 150 preferred "$path"; done
run_test share 150 share
run_test deferred-long 60 long_messages
run_test share-refused 60 share_refused
run_test mapped-is-not-captured 60 mapped_is_not_captured
finish_tests
