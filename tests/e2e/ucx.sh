#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: (programs.sh)
# [case38] UCX, unmodified, over the embedded fabric: its tag, stream, put, get and atomic operations over RC and over UD.
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/support/programs.sh
. "$testlib_root/tests/support/programs.sh"
fabric_up || exit 1
ucx_programs
run_here daemon-ends-cleanly fabric_down
finish_tests
