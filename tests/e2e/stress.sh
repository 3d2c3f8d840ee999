#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user asan limit=240
# Threads that share queues and break and destroy QPs all the time; many QPs and memory regions. By hand:
#   ROCEMU_STRESS_SECONDS=300 ROCEMU_QPS=10000 ROCEMU_MRS=100000 tests/e2e/stress.sh
# ROCEMU_BUILD may be a build with AddressSanitizer (the daemon) and ROCEMU_STRESS the program of a build with
# ThreadSanitizer, which has the provider built in.
. "$(dirname "$0")/lib.sh"
fabric_up || exit 1
seconds=${ROCEMU_STRESS_SECONDS:-4}
program=${ROCEMU_STRESS:-}
if [ -n "$program" ]; then
    run_test stress-tsan $((seconds + 200)) "$program" rocemu0 rocemu1 "$seconds"
else
    run_test stress $((seconds + 200)) attached "$ROCEMU_BUILD/tests/e2e/stress" rocemu0 rocemu1 "$seconds"
fi
case $ROCEMU_BUILD in
    *asan*) ;;
    *) run_test scale $((200 + ${ROCEMU_QPS:-0} / 5)) attached "$ROCEMU_BUILD/tests/e2e/scale" rocemu0 rocemu1 "${ROCEMU_QPS:-100}" "${ROCEMU_MRS:-1000}" "$daemon_pid" ;;
esac
run_test nothing-left 20 test "$(status_value 'sum(x.get("qps", 0) + x.get("mrs", 0) for x in s["sessions"] if not x.get("admin"))')" = 0
run_here daemon-ends-cleanly fabric_down
finish_tests
