#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user limit=120
# The rdma_cm device beyond what librdmacm's programs use: every form of query; connections over RoCE v1, asked for by
# the device option rdma_cm and taken by a listener whose own device says v2.
. "$(dirname "$0")/lib.sh"
cat >"$testlib_tmp/config.toml" <<'END'
[[device]]
name = "rocemu0"
addresses = ["10.203.0.1/24", "2001:db8:203::1/64"]
[[device]]
name = "rocemu1"
addresses = ["10.203.0.2/24", "2001:db8:203::2/64"]
rdma_cm = "v1"
[limits]
max_cm_ids = 64
END
fabric_up --config "$testlib_tmp/config.toml" || exit 1
# shellcheck source=tests/support/programs.sh
. "$testlib_root/tests/support/programs.sh"
server_ip6=2001:db8:203::1
queries() { attached "$ROCEMU_BUILD/tests/e2e/cm_queries" "$@"; }

# captured COMMAND...: every frame of RoCE at the client's device is of v1, and there are many.
captured() {
    local tap rc file=$testlib_tmp/v1.pcapng v1 v2
    "$rocemu" capture -d rocemu1 -w "$file" >"$testlib_tmp/tap" 2>&1 </dev/null &
    tap=$!
    wait_until 20 test -s "$file"
    "$@"
    rc=$?
    kill -INT $tap
    wait $tap
    [ $rc = 0 ] || return
    v1=$(tcpdump -n -r "$file" 'ether proto 0x8915' 2>/dev/null | grep -c .)
    v2=$(tcpdump -n -r "$file" 'udp dst port 4791' 2>/dev/null | grep -c .)
    echo "$v1 frames of RoCE v1, $v2 of v2"
    [ "$v1" -ge 20 ] && [ "$v2" = 0 ]
}

run_test queries-ipv4 20 queries 10.203.0.2 10.203.0.1 7000
run_test queries-ipv6 20 queries 2001:db8:203::2 2001:db8:203::1 7000
# By the names under which programs built for glibc before 2.33 know stat(2) and fstat(2), and by realpath's fortified one.
old_names() {
    attached python3 -c '
import ctypes, os, stat
c = ctypes.CDLL(None)
def mode(name, *args):
    info = ctypes.create_string_buffer(256)
    assert getattr(c, name)(1, *args[:-1], info, *args[-1]) == 0, name
    m = int.from_bytes(info.raw[24:28], "little")
    print(name, oct(m))
    return m
device, path = os.open("/dev/infiniband/rdma_cm", os.O_RDWR), b"/dev/infiniband/uverbs_rocemu0"
for end in "", "64":
    assert stat.S_ISCHR(mode("__fxstat" + end, device, ()))
    for name in "__xstat", "__lxstat": assert stat.S_ISCHR(mode(name + end, path, ()))
    assert stat.S_ISCHR(mode("__fxstatat" + end, -100, path, (0,)))
here, resolved = b"/sys/class/infiniband/rocemu0", ctypes.create_string_buffer(4096)
assert c.__realpath_chk(here, resolved, ctypes.c_size_t(4096)) != 0
assert resolved.value == here, resolved.value'
}
case $(uname -m) in
    x86_64) run_test old-names-of-stat 20 old_names ;;
    *) skip_test "${testlib_prefix}old-names-of-stat" "knows the x86-64 struct stat" ;;
esac
run_test v1-rping 60 captured rping_pair $server_ip -C 10
run_test v1-rping-ipv6 60 captured rping_pair $server_ip6 -C 10
run_test v1-udaddy 60 captured cm_pair udaddy
run_test v1-rstream 60 captured cm_pair rstream -S 65536 -C 20
# Asked for by the other device: v2 as ever.
v2() { ! captured "$@" && grep -q . "$testlib_tmp/v1.pcapng" && [ "$(tcpdump -n -r "$testlib_tmp/v1.pcapng" 'ether proto 0x8915' 2>/dev/null | grep -c .)" = 0 ]; }
from_v2_to_v1() { both rping -s -a 10.203.0.2 -C 3 -v --- rping -c -I 10.203.0.1 -a 10.203.0.2 -C 3 -v; }
run_test v2-to-a-v1-device 60 v2 from_v2_to_v1
run_here daemon-ends-cleanly fabric_down

# A port without a kernel interface, that writes its frames into a file: a group that is joined is reported by IGMP or MLD,
# twice, and twice more when it is left.
group_reports() { # GROUP SOURCE FILTER JOINED LEFT
    local receiver frames=$testlib_tmp/sent.pcap
    seen() { [ "$(tcpdump -v -n -r "$frames" "$1" 2>/dev/null | grep -c "$2")" -ge "$3" ]; }
    "$rocemu" run -- mckey -m "$1" -b "$2" >"$testlib_tmp/mckey" 2>&1 </dev/null &
    receiver=$!
    wait_until 20 seen "$3" "$4" 2 || { cat "$testlib_tmp/mckey"; tcpdump -v -n -r "$frames"; return 1; }
    end_process $receiver
    wait_until 20 seen "$3" "$5" 2 || { tcpdump -v -n -r "$frames"; return 1; }
    tcpdump -v -n -r "$frames" "$3" 2>/dev/null
    ! tcpdump -vv -n -r "$frames" 2>/dev/null | grep -i 'bad .*cksum\|incorrect'
}
cat >"$testlib_tmp/config.toml" <<END
[[device]]
name = "rocemu0"
port = "net_pcap0,tx_pcap=$testlib_tmp/sent.pcap"
addresses = ["10.204.0.1/24", "2001:db8:204::1/64"]
END
run_here pcap-daemon-starts fabric_up --config "$testlib_tmp/config.toml" || finish_tests
run_test igmp-reports 60 group_reports 239.1.2.3 10.204.0.1 igmp 'gaddr 239.1.2.3 to_ex' 'gaddr 239.1.2.3 to_in'
run_test mld-reports 60 group_reports ff0e::1234 2001:db8:204::1 ip6 'ff0e::1234 to_ex' 'ff0e::1234 to_in'
run_here pcap-daemon-ends-cleanly fabric_down
finish_tests
