// SPDX-License-Identifier: BSD-3-Clause
// The options as text, made from options.def: what `rocemud --help-config` prints and docs/configuration.md holds.
#include <sstream>

#include "config/config.h"

namespace rocemu::config {
namespace {

struct Row {
    std::string key, type, fallback, meaning;
};

std::string quoted(const std::string& s) {
    return "\"" + s + "\"";
}
std::string pieces(std::string choices) {
    std::string out = quoted(choices);
    for (size_t at = 0; (at = out.find('|', at)) != out.npos; at += 4) out.replace(at, 1, "\", \"");
    return out;
}
std::string octal(const std::string& key, int64_t v) {
    if (key != "socket_mode") return std::to_string(v);
    std::ostringstream s;
    s << "0o" << std::oct << v;
    return s.str();
}

#define ROCEMU_TEXT(key, def, check, doc) {#key, "string", quoted(def), doc},
#define ROCEMU_INTEGER(key, def, min, max, doc) \
    {#key, "integer, " + octal(#key, min) + " to " + octal(#key, max), octal(#key, def), doc},
#define ROCEMU_FRACTION(key, def, doc) {#key, "number, 0 to 1", #def, doc},
#define ROCEMU_CHOICE(key, def, choices, doc) {#key, pieces(choices), quoted(def), doc},
#define ROCEMU_TEXTS(key, check, doc) {#key, "list of strings", "[]", doc},
#define ROCEMU_INTEGERS(key, min, max, doc) {#key, "list of integers", "[]", doc},
#define ROCEMU_ROWS(section)                                                                                \
    std::vector<Row> {                                                                                      \
        section(ROCEMU_TEXT, ROCEMU_INTEGER, ROCEMU_FRACTION, ROCEMU_CHOICE, ROCEMU_TEXTS, ROCEMU_INTEGERS) \
    }

void section(std::ostringstream& out, const char* title, const char* about, const std::vector<Row>& rows) {
    out << "\n## " << title << "\n\n"
        << about << "\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
    for (const Row& row : rows)
        out << "| `" << row.key << "` | " << row.type << " | `" << row.fallback << "` | " << row.meaning << " |\n";
}

}  // namespace

std::string help_text() {
    std::ostringstream out;
    out << "# Configuration of rocemud\n\n"
           "`rocemud --config FILE` reads a TOML file. Unknown keys and bad values are errors that name file, line "
           "and\n"
           "key. Without a file, or without `[[device]]`, there are two devices on the embedded fabric: rocemu0\n"
           "(10.203.0.1/24) and rocemu1 (10.203.0.2/24). This text is what `rocemud --help-config` prints; it is made\n"
           "from lib/config/options.def. Examples: configs/.\n";
    section(out, "[daemon]", "The daemon itself.", ROCEMU_ROWS(ROCEMU_DAEMON_OPTIONS));
    section(out, "[limits]", "Quotas of one attached process; programs see them as device attributes.",
            ROCEMU_ROWS(ROCEMU_LIMIT_OPTIONS));
    section(out, "[[device]]", "One table for each device.", ROCEMU_ROWS(ROCEMU_DEVICE_OPTIONS));
    section(
        out, "device.impairments",
        "Faults of what this device sends, on the fabric only; written as `impairments = { drop = 0.01, seed = 7 }`.",
        ROCEMU_ROWS(ROCEMU_IMPAIRMENT_OPTIONS));
    return out.str();
}

}  // namespace rocemu::config
