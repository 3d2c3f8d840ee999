// SPDX-License-Identifier: BSD-3-Clause
// Config: the daemon's configuration as plain structures, made from options.def. load() reads a TOML file; everything
// it does not understand is an error that names file, line and key.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "config/options.def"

namespace rocemu::config {

#define ROCEMU_TEXT(key, def, check, doc) std::string key = def;
#define ROCEMU_INTEGER(key, def, min, max, doc) int64_t key = def;
#define ROCEMU_FRACTION(key, def, doc) double key = def;
#define ROCEMU_CHOICE(key, def, choices, doc) std::string key = def;
#define ROCEMU_TEXTS(key, check, doc) std::vector<std::string> key;
#define ROCEMU_INTEGERS(key, min, max, doc) std::vector<int64_t> key;
#define ROCEMU_FIELDS(section) \
    section(ROCEMU_TEXT, ROCEMU_INTEGER, ROCEMU_FRACTION, ROCEMU_CHOICE, ROCEMU_TEXTS, ROCEMU_INTEGERS)

struct DaemonOptions {
    ROCEMU_FIELDS(ROCEMU_DAEMON_OPTIONS)
};
struct LimitOptions {
    ROCEMU_FIELDS(ROCEMU_LIMIT_OPTIONS)
};
struct ImpairmentOptions {
    ROCEMU_FIELDS(ROCEMU_IMPAIRMENT_OPTIONS)
};
struct DeviceOptions {
    ROCEMU_FIELDS(ROCEMU_DEVICE_OPTIONS)
    ImpairmentOptions impairments;
};

#undef ROCEMU_FIELDS
#undef ROCEMU_TEXT
#undef ROCEMU_INTEGER
#undef ROCEMU_FRACTION
#undef ROCEMU_CHOICE
#undef ROCEMU_TEXTS
#undef ROCEMU_INTEGERS

struct Config {
    DaemonOptions daemon;
    LimitOptions limits;
    std::vector<DeviceOptions> devices;
};

class ConfigError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Throws ConfigError; its text has one line an error, FILE:LINE: KEY: MESSAGE. A file without [[device]] gets the
// default devices.
[[nodiscard]] Config load(const std::string& path);
[[nodiscard]] Config parse(std::string_view text, const std::string& name);
// No file: two devices on the fabric, rocemu0 (10.203.0.1/24) and rocemu1 (10.203.0.2/24).
[[nodiscard]] Config defaults();

// All options with type, default, range and meaning, as Markdown (docs/configuration.md is this text).
[[nodiscard]] std::string help_text();

// "10.0.0.1/24" to its address part and prefix length; false: not an address with a valid prefix length.
[[nodiscard]] bool split_address(std::string_view text, std::string& address, int& prefix);

}  // namespace rocemu::config
