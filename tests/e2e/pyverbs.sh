#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user limit=600
# rdma-core's own test suite (Debian: python3-pyverbs, tests under /usr/share/doc/rdma-core/tests), unmodified, on the
# embedded fabric: one test here for each of its modules, compared with pyverbs.expected (see pyverbs_suite.py).
. "$(dirname "$0")/lib.sh"
suite="$(dirname "$0")/pyverbs_suite.py"
# The package belongs to Debian's own python3, whatever else is first in PATH.
python=/usr/bin/python3
modules=$("$python" "$suite" modules 2>"$testlib_tmp/why") || {
    skip_test suite "$(tail -n 1 "$testlib_tmp/why")"
    finish_tests
    exit
}
fabric_up || exit 1
tests=$testlib_tmp/tests
"$python" "$suite" unpack "$tests" || exit 1
for module in $modules; do
    run_test "$module" 120 "$python" "$suite" run "$tests" "$module" "$testlib_tmp/results" -- "$rocemu" run --
done
run_test counted 10 "$python" "$suite" count "$testlib_tmp/results" 130
run_here daemon-ends-cleanly fabric_down
finish_tests
