// SPDX-License-Identifier: BSD-3-Clause
// The model check: thousands of random schedules, each the core against the naive reference or against itself, with
// every invariant looked at after each step (wire_rules.h, oracle.h). A failing one is shrunk and printed; put its text
// in schedules/ and it is run for ever.
//   ROCEMU_MODEL_SECONDS=600  go on with new seeds for so long
//   ROCEMU_MODEL_SEED=1       the first seed
//   ROCEMU_MODEL_FILE=FILE    one schedule, with a trace of its frames
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tests/model/runner.h"

using namespace rocemu;
using namespace rocemu::model;

namespace {

uint64_t number(const char* variable, uint64_t otherwise) {
    const char* v = std::getenv(variable);
    return v == nullptr ? otherwise : std::strtoull(v, nullptr, 10);
}

std::string report(const Schedule& failing) {
    const Schedule small = shrink(failing, [](const Schedule& s) { return !run_schedule(s).failure.empty(); });
    const RunResult r = run_schedule(small, true);
    return "seed " + std::to_string(failing.seed) + ": " + run_schedule(failing).failure + "\nshrunk to:\n" +
           to_text(small) + "which fails with: " + r.failure + "\n" + r.trace;
}

}  // namespace

TEST_CASE("schedules that failed once", "[model]") {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(MODEL_SCHEDULES)) {
        std::ifstream in(entry.path());
        INFO(entry.path());
        CHECK(run_schedule(read_schedule(in)).failure == "");
        ++count;
    }
    CHECK(count > 0);
}

TEST_CASE("text of a schedule reads back as the same run", "[model]") {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        const Schedule s = make_schedule(seed);
        std::istringstream in(to_text(s));
        CHECK(to_text(read_schedule(in)) == to_text(s));
    }
}

TEST_CASE("shrinking keeps what fails and drops the rest", "[model]") {
    // "Fails" with a SEND from B and a dropped frame, whatever else there is.
    const auto fails = [](const Schedule& s) {
        bool send = false, drop = false;
        for (const Post& p : s.posts) send |= p.side == 1 && p.op == 2;
        for (const Fault& f : s.faults) drop |= f.kind == 0;
        return send && drop;
    };
    int tried = 0;
    for (uint64_t seed = 1; tried < 5; ++seed) {
        const Schedule s = make_schedule(seed);
        if (!fails(s)) continue;
        ++tried;
        const Schedule small = shrink(s, fails);
        CHECK(small.posts.size() == 1);
        CHECK(small.faults.size() == 1);
        CHECK(small.events.empty());
    }
}

TEST_CASE("the core against the reference and against itself",
          "[model][9.2.3][9.7.1][9.7.3][9.7.5.1.2][9.7.5.1.3][9.7.5.1.4][9.7.5.1.5][9.7.5.1.8]"
          "[9.7.5.2.6][9.7.5.2.8][9.7.7.1][9.9.3][10.3.1.5][10.7.3.1][10.8.3.3][10.8.6][C9-88]"
          "[case7][case9][case10][case12][case15]") {
    if (const char* file = std::getenv("ROCEMU_MODEL_FILE")) {
        std::ifstream in(file);
        const RunResult r = run_schedule(read_schedule(in), true);
        std::cout << r.trace;
        REQUIRE(r.failure == "");
        return;
    }
    const bool by_hand = std::getenv("ROCEMU_MODEL_SECONDS") != nullptr;
    const auto seconds = std::chrono::seconds(number("ROCEMU_MODEL_SECONDS", 10));
    const uint64_t first = number("ROCEMU_MODEL_SEED", 1);
    const auto until = std::chrono::steady_clock::now() + seconds;
    uint64_t runs = 0, frames = 0;
    // A slow build (sanitizers) does fewer; a schedule itself never depends on the clock.
    for (uint64_t seed = first; (by_hand || seed < first + 6000) && std::chrono::steady_clock::now() < until; ++seed) {
        const Schedule s = make_schedule(seed);
        const RunResult r = run_schedule(s);
        frames += r.frames;
        ++runs;
        if (!r.failure.empty()) FAIL(report(s));
    }
    std::cout << runs << " schedules, " << frames << " frames\n";
    CHECK(runs > 20);
}
