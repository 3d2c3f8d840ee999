# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# A guest with Linux's own rdma_rxe on a bridge in a network namespace. Source tests/support/testlib.sh first.
#
# Where it comes from: ROCEMU_RXE_OUT (a ready-made directory), else ${XDG_CACHE_HOME:-~/.cache}/rocemu/rxe-peer,
# made by image.py on first use. Layout: userland.cpio.gz, 6.12/{vmlinuz,modules.cpio.gz} for QEMU, and optionally
# uml/linux, the same kernel as a User-Mode Linux program (ten times faster than QEMU without KVM). Our own init is
# appended to whatever user land it is.

interop=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# guest_image: sets `image` to the directory to boot from, made if need be.
guest_image() {
    if [ -n "${ROCEMU_RXE_OUT:-}" ]; then
        image=$ROCEMU_RXE_OUT
        [ -e "$image/userland.cpio.gz" ] || { echo "ROCEMU_RXE_OUT=$image has no userland.cpio.gz"; return 1; }
        return 0
    fi
    image=${XDG_CACHE_HOME:-$HOME/.cache}/rocemu/rxe-peer
    mkdir -p "$image"
    [ "$image/userland.cpio.gz" -nt "$interop/image.py" ] || "$interop/image.py" userland "$image" || return
    [ "$image/6.12/vmlinuz" -nt "$interop/image.py" ] || "$interop/image.py" kernel "$image"
}

# guest_engine: sets `engine` to uml or qemu. ROCEMU_RXE_ENGINE forces one. A processor with AMX has more registers than the
# User-Mode Linux of this kernel keeps for a process: it panics with the first one (fatal_sigsegv in userspace()).
guest_engine() {
    engine=${ROCEMU_RXE_ENGINE:-}
    if [ -z "$engine" ]; then
        if [ -x "$image/uml/linux" ] && ! grep -qw amx_tile /proc/cpuinfo; then engine=uml; else engine=qemu; fi
    fi
}

# guest_tap NETNS MTU [IFACE...]: a tap for the guest; it and these interfaces (already in NETNS) are brought up.
guest_tap() {
    local ns=$1 mtu=$2 i
    shift 2
    # UML and QEMU both open the tap with virtio-net headers.
    ip -n "$ns" tuntap add tap0 mode tap vnet_hdr || return
    # Several windows of packets: the guest may not run for long.
    ip -n "$ns" link set tap0 txqueuelen 30000
    for i in tap0 "$@"; do
        ip -n "$ns" link set "$i" mtu "$mtu" up || return
        # Whole packets with finished checksums, as on a cable.
        ip netns exec "$ns" ethtool -K "$i" tx off gso off gro off tso off >/dev/null 2>&1
    done
}

# guest_net NETNS MTU [IFACE...]: the same, joined by a bridge.
guest_net() {
    local ns=$1 mtu=$2 i
    guest_tap "$@" || return
    shift 2
    ip -n "$ns" link add br0 type bridge mcast_snooping 0 forward_delay 0 || return
    for i in tap0 "$@"; do ip -n "$ns" link set "$i" master br0 || return; done
    ip -n "$ns" link set br0 mtu "$mtu" up
}

# guest_start NETNS ADDR/LEN MTU [ADDR6/LEN]: boots a guest on tap0 of NETNS and waits for rxe0. Sets guest_pid,
# guest_log.
guest_start() {
    local ns=$1 addr=$2 mtu=$3 addr6=${4:-} state mac=02:52:58:45:00:${2##*.} append
    mac=$(printf '02:52:58:45:00:%02x' "$(sed 's/.*\.\([0-9]*\)\/.*/\1/' <<<"$addr")")
    guest_image && guest_engine || return
    state=$testlib_tmp/guest-$ns
    mkdir -p "$state"
    guest_log=$state/console.log
    "$interop/image.py" overlay "$state/overlay.cpio.gz" "$ROCEMU_BUILD/tests/interop/interop_peer" || return
    append="rocemu.ip=$addr rocemu.mac=$mac rocemu.mtu=$mtu rocemu.ip6=$addr6 panic=-1 quiet net.ifnames=0"
    if [ "$engine" = uml ]; then
        cat "$image/userland.cpio.gz" "$state/overlay.cpio.gz" >"$state/initrd"
        # TMPDIR: where User-Mode Linux keeps the guest's memory.
        # shellcheck disable=SC2086
        TMPDIR=/dev/shm setsid ip netns exec "$ns" "$image/uml/linux" mem=384M "initrd=$state/initrd" "umid=$ns" \
            "uml_dir=$state/" con=null con0=null,fd:1 \
            "vec0:transport=tap,ifname=tap0,depth=128,gro=0,mtu=$mtu,mac=$mac" \
            rocemu.mhz="$(awk '/cpu MHz/ { print $4; exit }' /proc/cpuinfo)" $append >"$guest_log" 2>&1 </dev/null &
    else
        cat "$image/userland.cpio.gz" "$image/6.12/modules.cpio.gz" "$state/overlay.cpio.gz" >"$state/initrd"
        setsid ip netns exec "$ns" qemu-system-x86_64 -accel tcg,thread=multi,tb-size=256 -M q35 -cpu max -smp 1 \
            -m 512 -nodefaults -no-user-config -no-reboot -display none \
            -kernel "$image/6.12/vmlinuz" -initrd "$state/initrd" \
            -append "console=ttyS0 mitigations=off tsc=reliable random.trust_cpu=on $append" \
            -serial file:"$guest_log" -netdev tap,id=n0,ifname=tap0,script=no,downscript=no \
            -device "virtio-net-pci,netdev=n0,mac=$mac,romfile=,csum=off,gso=off,guest_csum=off" \
            -object rng-random,id=r0,filename=/dev/urandom -device virtio-rng-pci,rng=r0 \
            >"$state/qemu.log" 2>&1 </dev/null &
    fi
    guest_pid=$!
    at_exit guest_stop "$guest_pid"
    local end=$((SECONDS + ${ROCEMU_BOOT_LIMIT:-180}))
    until grep -q 'rocemu-guest: ready' "$guest_log" 2>/dev/null; do
        if ! kill -0 "$guest_pid" 2>/dev/null || [ $SECONDS -ge $end ]; then
            echo "the $engine guest did not come up:"
            tail -n 25 "$guest_log" "$state/qemu.log" 2>/dev/null
            return 1
        fi
        sleep 0.1
    done
    grep -a 'rocemu-guest:' "$guest_log" | tr -d '\r'
}

# guest_stop PID: ends the session that the guest was started in: UML's guest processes are processes of this host.
guest_stop() {
    kill -0 "$1" 2>/dev/null || return 0
    kill -9 -- "-$1" 2>/dev/null
    wait "$1" 2>/dev/null
    return 0
}

# guest_exec NETNS ADDR SECONDS COMMAND
guest_exec() { ip netns exec "$1" /usr/bin/env python3 "$interop/guest_exec.py" "$2" "$3" "$4"; }
