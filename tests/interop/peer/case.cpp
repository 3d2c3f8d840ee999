// SPDX-License-Identifier: BSD-3-Clause
// See case.h.
#include "case.h"

#include <array>
#include <sstream>

#include "channel.h"

namespace interop {

namespace {

struct OpRow {
    const char* name;
    Service service;
    Work work;
    bool srq;
};
constexpr std::array kOps{
    OpRow{"send", Service::Rc, Work::Send, false},
    OpRow{"send_imm", Service::Rc, Work::SendImm, false},
    OpRow{"send_inv", Service::Rc, Work::SendInvalidate, false},
    OpRow{"write", Service::Rc, Work::Write, false},
    OpRow{"write_imm", Service::Rc, Work::WriteImm, false},
    OpRow{"read", Service::Rc, Work::Read, false},
    OpRow{"cas", Service::Rc, Work::CompareSwap, false},
    OpRow{"fetch_add", Service::Rc, Work::FetchAdd, false},
    OpRow{"srq_send", Service::Rc, Work::Send, true},
    OpRow{"srq_write_imm", Service::Rc, Work::WriteImm, true},
    OpRow{"uc_send", Service::Uc, Work::Send, false},
    OpRow{"uc_send_imm", Service::Uc, Work::SendImm, false},
    OpRow{"uc_write", Service::Uc, Work::Write, false},
    OpRow{"uc_write_imm", Service::Uc, Work::WriteImm, false},
    OpRow{"ud_send", Service::Ud, Work::Send, false},
    OpRow{"ud_send_imm", Service::Ud, Work::SendImm, false},
};
constexpr std::array kFaults{"none",          "rkey",       "other_pd", "bounds",    "region_access", "qp_access",
                             "short_receive", "no_receive", "lkey",     "unaligned", "silent"};

uint32_t number(const std::string& text) {
    return static_cast<uint32_t>(std::stoul(text));
}

void set_op(Case& c, const std::string& name) {
    c.op = name;
    for (const OpRow& row : kOps) {
        if (name != row.name) continue;
        c.service = row.service;
        c.work = row.work;
        c.srq = row.srq;
        return;
    }
    throw Failure("no such operation: " + name);
}

void set_fault(Case& c, const std::string& name) {
    for (size_t i = 0; i < kFaults.size(); ++i) {
        if (name != kFaults[i]) continue;
        c.fault = static_cast<Fault>(i);
        return;
    }
    throw Failure("no such fault: " + name);
}

// Expected outcomes hold blanks; in the line each of them is a tilde.
std::string blanks(std::string text) {
    for (char& ch : text)
        if (ch == '~') ch = ' ';
    return text;
}

}  // namespace

uint32_t Case::messages() const {
    if (fault != Fault::None) return 3;
    if (size <= 65536) return 8;
    return loss_percent > 1 ? 1 : 2;
}

bool Case::takes_receive() const {
    return work == Work::Send || work == Work::SendImm || work == Work::SendInvalidate || work == Work::WriteImm;
}

Case parse_case(const std::string& line) {
    Case c;
    c.text = line;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
        const size_t equals = word.find('=');
        if (equals == std::string::npos) throw Failure("not key=value: " + word);
        const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
        if (key == "name")
            c.name = value;
        else if (key == "op")
            set_op(c, value);
        else if (key == "mtu")
            c.mtu = number(value);
        else if (key == "size")
            c.size = number(value);
        else if (key == "loss")
            c.loss_percent = number(value);
        else if (key == "ip")
            c.ip = static_cast<int>(number(value));
        else if (key == "requester")
            c.driver_requests = value == "driver";
        else if (key == "fault")
            set_fault(c, value);
        else if (key == "rnr_retry")
            c.rnr_retry = number(value);
        else if (key == "timeout")
            c.timeout = number(value);
        else if (key == "any_key")
            c.any_key = true;
        else if (key == "want_requester")
            c.want_requester = blanks(value);
        else if (key == "want_responder")
            c.want_responder = blanks(value);
        else
            throw Failure("no such key: " + key);
    }
    return c;
}

}  // namespace interop
