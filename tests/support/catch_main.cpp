// SPDX-License-Identifier: BSD-3-Clause
// The one main() of all Catch2 tests: compiled once, linked by each test executable.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
