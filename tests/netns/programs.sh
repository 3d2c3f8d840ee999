#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# librdmacm's programs and those of other packages between two daemons in two network namespaces: what tests/e2e runs on
# the fabric. ROCEMU_FULL=1 runs all of them, else those that behave otherwise on a wire.
# [case38]
# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
for part in programs mpi iser; do
    # shellcheck disable=SC1090
    . "$testlib_root/tests/support/$part.sh"
done
# shellcheck disable=SC2034
[ -n "${ROCEMU_FULL:-}" ] || programs='^(ucmatose|udaddy|mckey|rc_verbs-tag_lat-1024|mpi-rc-ring)$'
server_ip6=2001:db8:88::2
# A server of libfabric's connected endpoints listens on the address of its host's name, which is another one here.
fi_types=dgram

net_up 1500 && ip -n "$ns_a" addr add 2001:db8:88::1/64 dev wire0 nodad && ip -n "$ns_b" addr add $server_ip6/64 dev wire0 nodad || exit 1
run_here daemons-start daemons_up || finish_tests
rdmacm_programs
perftest_cm_programs
package_programs
ucx_programs
mpi_programs
iser_programs
sees() { says "$1" at_client "${@:2}"; }
of ibstat ibstat 20 sees 'State: Active' ibstat
program ibv_devinfo 20 sees 'PORT_ACTIVE' ibv_devinfo
run_here daemons-end-cleanly daemons_down
finish_tests
