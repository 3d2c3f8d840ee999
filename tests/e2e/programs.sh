#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rocemu-test: user limit=1500
# Every program of docs/programs.md on the embedded fabric, unmodified. Each part is a script of its own, with its own
# daemon; what else they say in their `rocemu-test:` lines is how they run besides.
. "$(dirname "$0")/../support/testlib.sh"
here=$(dirname "$0")
for part in ${*:-fabric datagrams rdmacm ucx mpi iser}; do
    ROCEMU_PREFIX="$testlib_prefix$part/" bash "$here/$part.sh"
    rc=$?
    [ $rc = 0 ] && continue
    printf 'not ok  %s: exit code %s\n' "$testlib_prefix$part" $rc
    testlib_record failed "$testlib_prefix$part"
done
finish_tests
