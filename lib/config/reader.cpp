// SPDX-License-Identifier: BSD-3-Clause
// Reader: one function a kind of option; see options.def.
#include "config/reader.h"

#include <algorithm>
#include <cctype>

#include "config/config.h"

namespace rocemu::config {
namespace {

bool is_mac(std::string_view s) {
    if (s.size() != 17) return false;
    for (size_t i = 0; i < s.size(); ++i)
        if (i % 3 == 2 ? s[i] != ':' : !std::isxdigit(static_cast<unsigned char>(s[i]))) return false;
    return (std::stoi(std::string(s.substr(0, 2)), nullptr, 16) & 1) == 0;
}

bool is_name(std::string_view s) {
    return !s.empty() && s.size() <= 31 && std::isalpha(static_cast<unsigned char>(s[0])) &&
           std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

// nullptr, or what is wrong.
const char* fault_of(std::string_view s, Check check) {
    std::string address;
    int prefix = 0;
    switch (check) {
        case Check::any:
            return nullptr;
        case Check::name:
            return is_name(s) ? nullptr : "must be a letter and up to 30 letters, digits, _ or -";
        case Check::mac:
            return s.empty() || is_mac(s) ? nullptr : "must be a unicast MAC address, aa:bb:cc:dd:ee:ff";
        case Check::port:
            return !s.empty() && s.find_first_of(" \t\n") == s.npos ? nullptr
                                                                    : "must be fabric, a DPDK vdev or a PCI address";
        case Check::address:
            return split_address(s, address, prefix) ? nullptr
                                                     : "must be an address with prefix length, such as 10.0.0.1/24 or, on VLAN 5, 10.0.0.1/24@5";
    }
    return nullptr;
}

std::string range(int64_t min, int64_t max) {
    return std::to_string(min) + " to " + std::to_string(max);
}

}  // namespace

void Errors::add(const toml::source_region& where, std::string_view key, std::string_view message) {
    std::string line = file + ":" + std::to_string(where.begin.line) + ": ";
    if (!key.empty()) line += std::string(key) + ": ";
    lines.push_back(line + std::string(message));
}

void Reader::error(const toml::node& where, std::string_view key, std::string_view message) {
    errors_.add(where.source(), section_ + std::string(key), message);
}

const toml::node* Reader::node(std::string_view key) {
    known_.emplace(key);
    return table_.get(key);
}

void Reader::text(std::string_view key, std::string& out, Check check) {
    const auto* n = node(key);
    if (!n) return;
    const auto* value = n->as_string();
    if (!value) return error(*n, key, "must be a string");
    if (const char* fault = fault_of(value->get(), check)) return error(*n, key, fault);
    out = value->get();
}

void Reader::integer(std::string_view key, int64_t& out, int64_t min, int64_t max) {
    const auto* n = node(key);
    if (!n) return;
    const auto* value = n->as_integer();
    if (!value) return error(*n, key, "must be an integer");
    if (value->get() < min || value->get() > max) return error(*n, key, "must be " + range(min, max));
    out = value->get();
}

void Reader::fraction(std::string_view key, double& out) {
    const auto* n = node(key);
    if (!n) return;
    const auto value = n->value<double>();
    if (!n->is_number() || !value) return error(*n, key, "must be a number");
    if (!(*value >= 0 && *value <= 1)) return error(*n, key, "must be 0 to 1");
    out = *value;
}

void Reader::choice(std::string_view key, std::string& out, std::string_view choices) {
    const auto* n = node(key);
    if (!n) return;
    const auto* value = n->as_string();
    const std::string padded = "|" + std::string(choices) + "|";
    const bool good = value && value->get().find('|') == std::string::npos &&
                      padded.find("|" + value->get() + "|") != std::string::npos;
    if (!good) return error(*n, key, "must be one of " + std::string(choices));
    out = value->get();
}

void Reader::texts(std::string_view key, std::vector<std::string>& out, Check check) {
    const auto* n = node(key);
    if (!n) return;
    const auto* list = n->as_array();
    if (!list) return error(*n, key, "must be a list of strings");
    out.clear();
    for (const auto& item : *list) {
        const auto* value = item.as_string();
        if (!value) return error(item, key, "must be a list of strings");
        if (const char* fault = fault_of(value->get(), check)) return error(item, key, fault);
        out.push_back(value->get());
    }
}

void Reader::integers(std::string_view key, std::vector<int64_t>& out, int64_t min, int64_t max) {
    const auto* n = node(key);
    if (!n) return;
    const auto* list = n->as_array();
    if (!list) return error(*n, key, "must be a list of integers");
    out.clear();
    for (const auto& item : *list) {
        const auto* value = item.as_integer();
        if (!value) return error(item, key, "must be a list of integers");
        if (value->get() < min || value->get() > max) return error(item, key, "must be " + range(min, max));
        out.push_back(value->get());
    }
}

void Reader::finish() {
    for (const auto& [key, value] : table_)
        if (!known_.contains(key.str()))
            errors_.add(key.source(), section_ + std::string(key.str()), "there is no such option");
}

}  // namespace rocemu::config
