// SPDX-License-Identifier: BSD-3-Clause
// See layout.h.
#include "layout.h"

#include <algorithm>
#include <vector>

namespace rocemu::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string plain(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_array()) {
        std::string text;
        for (const Json& item : value) text += (text.empty() ? "" : " ") + plain(item);
        return text;
    }
    return value.dump();
}

bool is_flat_list(const Json& value) {
    return value.is_array() && std::none_of(value.begin(), value.end(), [](const Json& v) { return v.is_structured(); });
}
bool is_flat(const Json& value) { return !value.is_structured() || is_flat_list(value); }

bool is_table(const Json& value) {
    if (!value.is_array() || value.empty()) return false;
    return std::all_of(value.begin(), value.end(), [](const Json& row) {
        return row.is_object() && std::all_of(row.begin(), row.end(), [](const Json& cell) { return is_flat(cell); });
    });
}

void put_table(const Json& rows, const std::string& indent, std::string& out) {
    std::vector<std::string> columns;
    for (const Json& row : rows)
        for (const auto& [name, cell] : row.items())
            if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
    std::vector<std::vector<std::string>> lines{columns};
    for (const Json& row : rows) {
        std::vector<std::string> line;
        for (const std::string& column : columns) line.push_back(row.contains(column) ? plain(row[column]) : "");
        lines.push_back(line);
    }
    std::vector<size_t> widths(columns.size());
    for (const auto& line : lines)
        for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
    for (const auto& line : lines) {
        std::string text = indent;
        for (size_t i = 0; i < line.size(); ++i) text += line[i] + std::string(widths[i] - line[i].size() + 2, ' ');
        out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
    }
}

void put(const Json& json, const std::string& indent, std::string& out) {
    size_t width = 0;
    for (const auto& [name, value] : json.items())
        if (is_flat(value)) width = std::max(width, name.size());
    for (const auto& [name, value] : json.items()) {
        const std::string label = json.is_array() ? "[" + name + "]" : name;
        if (is_flat(value)) {
            out += indent + label + std::string(width > label.size() ? width - label.size() + 2 : 2, ' ') + plain(value) + "\n";
            continue;
        }
        out += indent + label + "\n";
        if (is_table(value))
            put_table(value, indent + "  ", out);
        else
            put(value, indent + "  ", out);
    }
}

}  // namespace

std::string laid_out(const Json& json) {
    std::string out;
    if (is_flat(json))
        out = plain(json) + "\n";
    else if (is_table(json))
        put_table(json, "", out);
    else
        put(json, "", out);
    return out;
}

}  // namespace rocemu::cli
