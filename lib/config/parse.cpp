// SPDX-License-Identifier: BSD-3-Clause
// From TOML to Config. The readers of the sections are made from options.def; what concerns several options at once
// (names that occur twice, required ones) is checked behind them.
#include <arpa/inet.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "config/config.h"
#include "config/reader.h"

namespace rocemu::config {
namespace {

#define ROCEMU_TEXT(key, def, check, doc) reader.text(#key, out.key, Check::check);
#define ROCEMU_INTEGER(key, def, min, max, doc) reader.integer(#key, out.key, min, max);
#define ROCEMU_FRACTION(key, def, doc) reader.fraction(#key, out.key);
#define ROCEMU_CHOICE(key, def, choices, doc) reader.choice(#key, out.key, choices);
#define ROCEMU_TEXTS(key, check, doc) reader.texts(#key, out.key, Check::check);
#define ROCEMU_INTEGERS(key, min, max, doc) reader.integers(#key, out.key, min, max);
#define ROCEMU_READ(section) \
    section(ROCEMU_TEXT, ROCEMU_INTEGER, ROCEMU_FRACTION, ROCEMU_CHOICE, ROCEMU_TEXTS, ROCEMU_INTEGERS)

void read(Reader& reader, DaemonOptions& out) {
    ROCEMU_READ(ROCEMU_DAEMON_OPTIONS)
}
void read(Reader& reader, LimitOptions& out) {
    ROCEMU_READ(ROCEMU_LIMIT_OPTIONS)
}
void read(Reader& reader, ImpairmentOptions& out) {
    ROCEMU_READ(ROCEMU_IMPAIRMENT_OPTIONS)
}
void read(Reader& reader, DeviceOptions& out) {
    ROCEMU_READ(ROCEMU_DEVICE_OPTIONS)
}

constexpr int64_t kMinMtu = 352;  // 256 bytes of payload and their headers

template <typename Options>
void read_table(Reader& parent, std::string_view key, Options& out, Errors& errors) {
    const auto* node = parent.node(key);
    if (!node) return;
    const auto* table = node->as_table();
    if (!table) return parent.error(*node, key, "must be a table");
    Reader reader(*table, std::string(key) + ".", errors);
    read(reader, out);
    reader.finish();
}

DeviceOptions read_device(const toml::table& table, Errors& errors) {
    DeviceOptions device;
    Reader reader(table, "device.", errors);
    read(reader, device);
    read_table(reader, "impairments", device.impairments, errors);
    reader.finish();
    if (device.name.empty() && !table.get("name")) errors.add(table.source(), "device.name", "is required");
    if (device.mtu != 0 && device.mtu < kMinMtu)
        reader.error(*table.get("mtu"), "mtu", "must be 0 or " + std::to_string(kMinMtu) + " to 9600");
    for (const char* key : {"impairments", "mac"})
        if (table.get(key) && device.port != "fabric") reader.error(*table.get(key), key, "is for the fabric only");
    return device;
}

void read_devices(Reader& top, std::vector<DeviceOptions>& out, Errors& errors) {
    const auto* node = top.node("device");
    if (!node) {
        out = defaults().devices;
        return;
    }
    const auto* list = node->as_array();
    if (!list) return top.error(*node, "device", "must be [[device]], once for each device");
    for (const auto& item : *list) {
        const auto* table = item.as_table();
        if (!table) return top.error(item, "device", "must be [[device]], once for each device");
        DeviceOptions device = read_device(*table, errors);
        for (const auto& other : out)
            if (!device.name.empty() && other.name == device.name)
                errors.add(table->source(), "device.name", "'" + device.name + "' occurs twice");
        out.push_back(std::move(device));
    }
}

}  // namespace

bool split_address(std::string_view text, std::string& address, int& prefix) {
    const size_t slash = text.find('/');
    if (slash == text.npos) return false;
    address = text.substr(0, slash);
    std::string_view rest = text.substr(slash + 1);
    if (const size_t at = rest.find('@'); at != rest.npos) {
        int vid = 0;
        const auto [end, error] = std::from_chars(rest.data() + at + 1, rest.data() + rest.size(), vid);
        if (error != std::errc{} || end != rest.data() + rest.size() || vid < 1 || vid > 4094) return false;
        rest = rest.substr(0, at);
    }
    const std::string digits(rest);
    if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != digits.npos) return false;
    prefix = std::stoi(digits);
    unsigned char bytes[16];
    if (inet_pton(AF_INET, address.c_str(), bytes) == 1) return prefix <= 32 && bytes[0] != 0 && bytes[0] < 224;
    return inet_pton(AF_INET6, address.c_str(), bytes) == 1 && prefix <= 128 && bytes[0] != 0xff;
}

Config defaults() {
    Config config;
    for (int i = 0; i < 2; ++i) {
        DeviceOptions device;
        device.name = "rocemu" + std::to_string(i);
        device.addresses = {"10.203.0." + std::to_string(i + 1) + "/24"};
        config.devices.push_back(std::move(device));
    }
    return config;
}

Config parse(std::string_view text, const std::string& name) {
    Errors errors{name, {}};
    Config config;
    try {
        const toml::table table = toml::parse(text, name);
        Reader top(table, "", errors);
        read_table(top, "daemon", config.daemon, errors);
        read_table(top, "limits", config.limits, errors);
        read_devices(top, config.devices, errors);
        top.finish();
    } catch (const toml::parse_error& e) {
        errors.add(e.source(), "", e.description());
    }
    if (errors.lines.empty()) return config;
    std::string all;
    for (const auto& line : errors.lines) all += (all.empty() ? "" : "\n") + line;
    throw ConfigError(all);
}

Config load(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw ConfigError(path + ": " + std::strerror(errno));
    errno = 0;
    file.peek();
    if (file.bad()) throw ConfigError(path + ": " + std::strerror(errno != 0 ? errno : EIO));  // a directory can be opened
    std::ostringstream text;
    text << file.rdbuf();
    return parse(text.str(), path);
}

}  // namespace rocemu::config
