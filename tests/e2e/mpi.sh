#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: (programs.sh)
# [case38] OpenMPI over UCX through the embedded fabric, four ranks on each NIC.
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/support/programs.sh
. "$testlib_root/tests/support/programs.sh"
# shellcheck source=tests/support/mpi.sh
. "$testlib_root/tests/support/mpi.sh"
fabric_up || exit 1
mpi_programs
run_here daemon-ends-cleanly fabric_down
finish_tests
