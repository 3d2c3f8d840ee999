# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The connection managers: librdmacm's programs between rocemud and the guest's kernel, in both roles, over IPv4, IPv6
# and a VLAN. Sourced by run.sh, with its guest and its daemon running. A short selection; with ROCEMU_FULL=1 all, and
# the results become a section of docs/interop.md.

vid=5
declare -A server_of=([ip4]=$ip_b [ip6]=fd00:88::2 [vlan]=10.99.0.2) client_of=([ip4]=$ip_a [ip6]=fd00:88::1 [vlan]=10.99.0.1)
cm_results=$testlib_tmp/cm-results
: >"$cm_results"

# The guest's end of the VLAN; ours is in the daemon's configuration.
cm_vlan_up() {
    in_guest 20 "ip link add link \$(ls /sys/class/net | grep -m 1 -E 'eth0|vec0') name vlan$vid type vlan id $vid &&
        ip link set vlan$vid up && ip addr add ${server_of[vlan]}/24 dev vlan$vid" || return
    gid_of on_a ${client_of[vlan]}
}

# In the guest: until an id of the program listens, 20 s at most.
guest_listens() {
    echo "n=0; until rdma resource show cm_id 2>/dev/null | grep -q 'LISTEN.*comm $1'; do n=\$((n + 1)); [ \$n -lt 400 ] || exit 1; sleep 0.05; done; sleep 0.2"
}
# ... until the device is a member of a group, by the address of its frames.
guest_joined() { echo "n=0; until grep -q ${1//:/} /proc/net/dev_mcast; do n=\$((n + 1)); [ \$n -lt 400 ] || exit 1; sleep 0.05; done; sleep 0.3"; }

we_listen() { [ "$("$rocemu" status --socket "$sock_a" --json | grep -c '"cm_listeners": [1-9]')" != 0 ]; }
we_joined() { ip netns exec "$ns_a" ip maddr show dev wire0 | grep -q "$1"; }

# cm_pair WHO FAMILY READY_HERE READY_THERE SERVER CLIENT: WHO is rocemu's role. @S@ and @C@ are the server's and the
# client's address, @D@ is the side's device.
cm_pair() {
    local who=$1 ready_here=$3 ready_there=$4 s c here there server rc out=$testlib_tmp/server.$BASHPID
    s=${server_of[$2]} c=${client_of[$2]}
    [ "$who" = client ] || { s=${client_of[$2]} c=${server_of[$2]}; }
    local serve=${5//@S@/$s} ask=${6//@S@/$s}
    serve=${serve//@C@/$c} ask=${ask//@C@/$c}
    if [ "$who" = client ]; then
        in_guest 60 "${serve//@D@/rxe0}" >"$out" 2>&1 &
        server=$!
        in_guest 25 "$ready_there" && on_a ${ask//@D@/rocemu0}
        rc=$?
    else
        on_a ${serve//@D@/rocemu0} >"$out" 2>&1 </dev/null &
        server=$!
        wait_until 20 $ready_here && in_guest 60 "${ask//@D@/rxe0}"
        rc=$?
    fi
    if [ $rc != 0 ]; then
        echo "client: exit code $rc; server:"
        if [ "$who" = client ]; then in_guest 5 "killall ${serve%% *}" >/dev/null 2>&1; else end_process $server; fi
        wait $server
        cat "$out"
        return 1
    fi
    wait $server
    rc=$?
    [ $rc = 0 ] || { echo "server: exit code $rc"; cat "$out"; return 1; }
}

# cm_case NAME FAMILY READY_HERE READY_THERE SERVER CLIENT, in both roles.
cm_case() {
    local who
    local pair=(cm_pair)
    [[ $1 != ib_* ]] || pair=(perftest_cm cm_pair)
    for who in client server; do
        run_test "rdma_cm/$1-$2-rocemu-is-$who" 100 "${pair[@]}" $who "${@:2}"
        printf '%s\t%s\t%s\t%s\n' "$1" "$2" $who $? >>"$cm_results"
    done
}
cm_program() { cm_case "$1" "$2" we_listen "$(guest_listens "${3%% *}")" "$3" "$4"; }

cm_run() { # FAMILY PROGRAM...
    local family=$1 f='' p group mac
    [ "$family" != ip6 ] || f='-f ip6'
    shift
    for p; do
        # What the programs, or Linux's connection manager, do over IPv4 only (see cm_report).
        if [ "$family" = ip6 ]; then case $p in mckey | rdma_client | ib_*) continue ;; esac; fi
        case $p in
            rping) cm_program rping $family 'rping -s -a @S@ -C 10 -v' 'rping -c -a @S@ -C 10 -v' ;;
            ucmatose) cm_program ucmatose $family "ucmatose $f -b @S@ -c 4" "ucmatose $f -b @C@ -s @S@ -c 4" ;;
            udaddy) cm_program udaddy $family "udaddy $f -b @S@" "udaddy $f -b @C@ -s @S@" ;;
            rstream) cm_program rstream $family "rstream $f -b @S@ -S 65536 -C 20" "rstream $f -s @S@ -S 65536 -C 20" ;;
            riostream) cm_program riostream $family "riostream $f -b @S@ -S 65536 -C 20" "riostream $f -s @S@ -S 65536 -C 20" ;;
            rdma_client) cm_program rdma_client $family rdma_server 'rdma_client -s @S@' ;;
            mckey)
                group=239.1.2.3 mac=01:00:5e:01:02:03
                cm_case mckey $family "we_joined $mac" "$(guest_joined $mac)" "mckey -m $group -b @S@" "mckey -m $group -b @C@ -s"
                ;;
            ib_*)
                cm_program "$p-R" $family "$p -R -F $f -n 100" "$p -R -F $f -n 100 @S@"
                ;;
        esac
    done
}

# The section of docs/interop.md, behind what matrix.sh writes.
cm_report() {
    python3 - "$cm_results" "$testlib_root/docs/interop.md" "$(in_guest 10 'uname -r' | tr -d '\r\n'), $engine" <<'END'
import collections, pathlib, sys
results, doc, kernel = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
rows = collections.OrderedDict()
for line in results.read_text().splitlines():
    program, family, who, code = line.split("\t")
    rows.setdefault(program, {})[family, who] = {"0": "yes", "77": "skipped"}.get(code, "**no**")
columns = [(f, w) for f in ("ip4", "ip6", "vlan") for w in ("client", "server")]
names = {"ip4": "IPv4", "ip6": "IPv6", "vlan": "VLAN"}
text = ["## Programs of librdmacm", "",
        f"Written by tests/interop/run.sh (ROCEMU_FULL=1) against Linux {kernel}; do not edit. Both programs exit with 0 by",
        "themselves. The column says over what, and which side rocemu is; the other is the guest's kernel. Over IPv6",
        "Linux's rdma_cm refuses to join groups (ENOTSUPP), rdma_server listens on IPv4 only, and Debian 12's perftest looks",
        "up IPv4 addresses only when it connects with rdma_cm (`-R`).", "",
        "| program | " + " | ".join(f"{names[f]}, {w}" for f, w in columns) + " |", "|" + " --- |" * (len(columns) + 1)]
text += ["| " + " | ".join([f"`{p}`"] + [cells.get(c, "—") for c in columns]) + " |" for p, cells in rows.items()]
head = doc.read_text().split("## Programs of librdmacm")[0].rstrip("\n")
doc.write_text(head + "\n\n" + "\n".join(text) + "\n")
END
}

if run_here rdma_cm/vlan-up cm_vlan_up; then families="ip4 ip6 vlan"; else families="ip4 ip6"; fi
if [ -n "${ROCEMU_FULL:-}" ]; then
    for family in $families; do
        cm_run $family rping ucmatose udaddy mckey rstream riostream rdma_client ib_write_bw ib_send_bw ib_read_bw ib_write_lat
    done
    cm_report
else
    cm_run ip4 rping ucmatose udaddy mckey rstream ib_write_bw
    cm_run ip6 rping udaddy
    [[ $families != *vlan* ]] || cm_run vlan rping ib_write_bw
fi
