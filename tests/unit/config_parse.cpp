// SPDX-License-Identifier: BSD-3-Clause
// The configuration reader: defaults, every kind of option, and errors that name file, line and key.
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "config/config.h"

using namespace rocemu;
using Catch::Matchers::Contains;

namespace {

std::string error_of(const std::string& text) {
    try {
        (void)config::parse(text, "bad.toml");
    } catch (const config::ConfigError& e) {
        return e.what();
    }
    return {};
}

}  // namespace

TEST_CASE("without a file there are two devices on the fabric") {
    const auto c = config::defaults();
    REQUIRE(c.devices.size() == 2);
    CHECK(c.devices[0].name == "rocemu0");
    CHECK(c.devices[1].addresses == std::vector<std::string>{"10.203.0.2/24"});
    CHECK(c.devices[0].port == "fabric");
    CHECK(c.daemon.socket_mode == 0600);
}

TEST_CASE("every kind of option is read") {
    const auto c = config::parse(R"(
[daemon]
lcores = [1, 3]
socket_mode = 0o666
wait = "dedicated"
[limits]
max_qp = 7
[[device]]
name = "a0"
addresses = ["10.0.0.1/8", "2001:db8::1/64"]
mac = "02:00:00:00:00:09"
mtu = 1500
impairments = { drop = 0.25, duplicate = 1, seed = 9 }
)",
                                 "f");
    CHECK(c.daemon.lcores == std::vector<int64_t>{1, 3});
    CHECK(c.daemon.socket_mode == 0666);
    CHECK(c.daemon.wait == "dedicated");
    CHECK(c.limits.max_qp == 7);
    REQUIRE(c.devices.size() == 1);
    CHECK(c.devices[0].addresses.size() == 2);
    CHECK(c.devices[0].mtu == 1500);
    CHECK(c.devices[0].impairments.drop == 0.25);
    CHECK(c.devices[0].impairments.duplicate == 1.0);
    CHECK(c.devices[0].impairments.seed == 9);
}

TEST_CASE("a file without devices keeps the default ones") {
    CHECK(config::parse("[daemon]\npayload = \"agent\"\n", "f").devices.size() == 2);
}

TEST_CASE("errors name file, line and key") {
    const std::string device = "[[device]]\nname = \"a0\"\n";
    const std::pair<std::string, std::string> bad[] = {
        {"[daemon]\nlcore = [0]", "bad.toml:2: daemon.lcore: there is no such option"},
        {"x = 1", "bad.toml:1: x: there is no such option"},
        {device + "mtu = \"big\"", "bad.toml:3: device.mtu: must be an integer"},
        {device + "mtu = 12", "bad.toml:3: device.mtu: must be 0 or 352 to 9600"},
        {device + "mtu = 100000", "bad.toml:3: device.mtu: must be 0 to 9600"},
        {device + "mac = \"01:00:00:00:00:00\"", "bad.toml:3: device.mac"},
        {device + "addresses = [\"10.0.0.1\"]", "bad.toml:3: device.addresses"},
        {device + "addresses = [\"10.0.0.1/33\"]", "bad.toml:3: device.addresses"},
        {device + "addresses = [\"224.0.0.1/4\"]", "bad.toml:3: device.addresses"},
        {device + "impairments = { drop = 1.5 }", "bad.toml:3: impairments.drop: must be 0 to 1"},
        {device + "impairments = { dorp = 0.5 }", "bad.toml:3: impairments.dorp"},
        {device + "port = \"net_null\"\nmac = \"02:00:00:00:00:01\"", "bad.toml:4: device.mac"},
        {device + device, "'a0' occurs twice"},
        {"[[device]]\nport = \"fabric\"", "device.name: is required"},
        {"[[device]]\nname = \"0a\"", "bad.toml:2: device.name"},
        {"[daemon]\nwait = \"adaptive|dedicated\"", "bad.toml:2: daemon.wait: must be one of"},
        {"[daemon]\nwait = 3", "bad.toml:2: daemon.wait"},
        {"[daemon\nx", "bad.toml:1: "},
        {"daemon = 3", "bad.toml:1: daemon: must be a table"},
    };
    for (const auto& [text, message] : bad) {
        INFO(text);
        CHECK_THAT(error_of(text), Contains(message));
    }
}

TEST_CASE("all errors of a file are told at once") {
    const auto text = error_of("[daemon]\na = 1\nb = 2\n[limits]\nmax_qp = 0\n");
    CHECK_THAT(text, Contains("bad.toml:2: daemon.a") && Contains("bad.toml:3: daemon.b") &&
                         Contains("bad.toml:5: limits.max_qp"));
}

TEST_CASE("a missing file is named") {
    CHECK_THROWS_WITH(config::load("/nowhere.toml"), Contains("/nowhere.toml"));
}

TEST_CASE("the examples in configs/ are valid") {
    for (const char* name : {"fabric", "af_packet", "two-daemons-a", "two-daemons-b"})
        CHECK_NOTHROW(config::load(std::string(ROCEMU_SOURCE) + "/configs/" + name + ".toml"));
}

TEST_CASE("docs/configuration.md is what --help-config prints") {
    std::ifstream file(std::string(ROCEMU_SOURCE) + "/docs/configuration.md");
    std::ostringstream text;
    text << file.rdbuf();
    CHECK(text.str() == config::help_text());
}
