#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: (programs.sh)
# OpenMPI over UCX: 2x4 ranks, four on each NIC of the fabric, over RC and over UD, by the programs that mpi4py brings.
# [case38]
. "$(dirname "$0")/lib.sh"
python=/usr/bin/python3
if ! command -v mpirun >/dev/null || ! PYTHONPATH=/usr/lib/python3/dist-packages $python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("mpi4py") is None)'; then
    skip_test "${testlib_prefix}mpi" "openmpi-bin or python3-mpi4py is not installed"
    finish_tests
fi
fabric_up || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PYTHONPATH=/usr/lib/python3/dist-packages
export OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_btl=self OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any

# ranks TRANSPORTS PROGRAM ARG...: eight of them; TCP and shared memory are not among the transports.
ranks() {
    local tls=$1 before
    shift
    before=$(packets)
    mpirun -np 4 -x UCX_TLS=$tls -x UCX_NET_DEVICES=rocemu0:1 "$rocemu" run -- "$@" : \
        -np 4 -x UCX_TLS=$tls -x UCX_NET_DEVICES=rocemu1:1 "$rocemu" run -- "$@" || return
    echo "$(($(packets) - before)) packets"
    [ "$(packets)" -gt $((before + 100)) ]
}
packets() { "$rocemu" counters --json | python3 -c '
import json, sys
def total(x): return sum(total(v) if isinstance(v, (dict, list)) else v if k == "tx_packets" else 0 for k, v in (x.items() if isinstance(x, dict) else enumerate(x)))
print(total(json.load(sys.stdin)))'; }
rc=rc_verbs,ud_verbs:aux,self
run_test rc-hello 180 ranks $rc $python -m mpi4py.bench helloworld
run_test rc-ring 180 ranks $rc $python -m mpi4py.bench ringtest -q -n 1000 -l 4
run_test ud-ring 180 ranks ud_verbs,self $python -m mpi4py.bench ringtest -q -n 1000 -l 4
run_here daemon-ends-cleanly fabric_down
finish_tests
