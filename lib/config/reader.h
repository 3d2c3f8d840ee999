// SPDX-License-Identifier: BSD-3-Clause
// Reader: takes the keys of one TOML table, checks type and range of each, and finds the keys nobody asked for.
// Errors are collected, so that a wrong file is told in one go.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rocemu::config {

// What a text may look like; see options.def.
enum class Check { any, name, mac, port, address };

struct Errors {
    std::string file;
    std::vector<std::string> lines;
    void add(const toml::source_region& where, std::string_view key, std::string_view message);
};

class Reader {
  public:
    Reader(const toml::table& table, std::string section, Errors& errors)
        : table_(table), section_(std::move(section)), errors_(errors) {}

    void text(std::string_view key, std::string& out, Check check);
    void integer(std::string_view key, int64_t& out, int64_t min, int64_t max);
    void fraction(std::string_view key, double& out);
    void choice(std::string_view key, std::string& out, std::string_view choices);
    void texts(std::string_view key, std::vector<std::string>& out, Check check);
    void integers(std::string_view key, std::vector<int64_t>& out, int64_t min, int64_t max);

    // A key that is read elsewhere.
    const toml::node* node(std::string_view key);
    // Reports every key that was not asked for.
    void finish();
    void error(const toml::node& where, std::string_view key, std::string_view message);

  private:
    const toml::table& table_;
    std::string section_;  // prefix of keys in messages, such as "daemon."
    Errors& errors_;
    std::set<std::string, std::less<>> known_;
};

}  // namespace rocemu::config
