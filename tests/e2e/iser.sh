#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: (programs.sh)
# [case38] An iSER target and an initiator in user space over the embedded fabric.
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/support/programs.sh
. "$testlib_root/tests/support/programs.sh"
# shellcheck source=tests/support/iser.sh
. "$testlib_root/tests/support/iser.sh"
fabric_up || exit 1
iser_programs
run_here daemon-ends-cleanly fabric_down
finish_tests
