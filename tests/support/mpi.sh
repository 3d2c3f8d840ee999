# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# OpenMPI over UCX: 2x4 ranks, four on each side, over RC and over UD, by the programs that mpi4py brings. Sourced with
# programs.sh. mpirun is on the client's host; ranks of another one reach it over the kernel's interfaces.
mpi_python=/usr/bin/python3
mpi_packages() { command -v mpirun >/dev/null && PYTHONPATH=/usr/lib/python3/dist-packages $mpi_python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("mpi4py") is None)'; }

# ranks TRANSPORTS PROGRAM ARG...: eight of them; TCP and shared memory are not among the transports.
ranks() {
    local tls=$1 before count i
    shift
    local -x OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PYTHONPATH=/usr/lib/python3/dist-packages
    local -x OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_btl=self OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    local -x OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any
    [ -z "$wire" ] || local -x PMIX_MCA_ptl_base_if_include=$wire PMIX_MCA_ptl_base_remote_connections=1
    before=$(packets)
    "${client_host[@]}" mpirun -np 4 -x UCX_TLS="$tls" -x UCX_NET_DEVICES="$client_dev:1" "${client_run[@]}" "$@" : \
        -np 4 -x UCX_TLS="$tls" -x UCX_NET_DEVICES="$server_dev:1" "${server_run[@]}" "$@" || return
    echo "$(($(packets) - before)) packets"
    [ "$(packets)" -gt $((before + 100)) ]
}
packets() { server_view counters | awk -F'[:,]' '/"tx_packets"/ { n += $2 } END { print n + 0 }'; }

mpi_programs() {
    local rc=rc_verbs,ud_verbs:aux,self
    mpi_packages || { skip_test "${testlib_prefix}mpi" "openmpi-bin or python3-mpi4py is not installed"; return; }
    program mpi-rc-hello 180 says 8 'Hello, World! I am process [0-7] of 8' ranks $rc $mpi_python -m mpi4py.bench helloworld
    program mpi-rc-ring 180 says 'time for 4 loops = .*8 processes' ranks $rc $mpi_python -m mpi4py.bench ringtest -n 1000 -l 4
    program mpi-ud-ring 180 says 'time for 4 loops = .*8 processes' ranks ud_verbs,self $mpi_python -m mpi4py.bench ringtest -n 1000 -l 4
}
