// SPDX-License-Identifier: BSD-3-Clause
// Case: one line of the matrix (matrix.py writes them): what is done, how, by whom, and what both sides must report.
#pragma once

#include <cstdint>
#include <string>

namespace interop {

enum class Work : uint8_t { Send, SendImm, SendInvalidate, Write, WriteImm, Read, CompareSwap, FetchAdd };
enum class Service : uint8_t { Rc, Uc, Ud };

// What is wrong with the second of the messages.
enum class Fault : uint8_t {
    None,
    Rkey,          // a key that does not exist
    OtherPd,       // a key of another protection domain
    Bounds,        // the last byte lies outside of the region
    RegionAccess,  // the region does not allow it
    QpAccess,      // the queue pair does not allow it
    ShortReceive,  // the receive is one byte too short
    NoReceive,     // there is no receive: RNR
    Lkey,          // the requester's own key does not exist
    Unaligned,     // an atomic at an odd address
    Silent,        // nobody answers: the responder's queue pair is gone
};

struct Case {
    std::string name;
    std::string op;
    Work work = Work::Send;
    Service service = Service::Rc;
    bool srq = false;
    uint32_t mtu = 1024;
    uint32_t size = 1024;
    uint32_t loss_percent = 0;
    int ip = 4;
    bool driver_requests = true;  // else the server's side is the requester
    Fault fault = Fault::None;
    uint32_t rnr_retry = 7;
    uint32_t timeout = 14;                       // of the queue pairs, as the verbs encode it
    bool any_key = false;                        // the remote key is not looked at: 0 will do
    std::string want_requester, want_responder;  // empty: whatever comes
    std::string text;                            // the line itself

    [[nodiscard]] uint32_t messages() const;
    [[nodiscard]] bool reliable() const { return service == Service::Rc; }
    // Whether each message takes a receive at the responder.
    [[nodiscard]] bool takes_receive() const;
    [[nodiscard]] bool atomic() const { return work == Work::CompareSwap || work == Work::FetchAdd; }
    // A message may be lost for good.
    [[nodiscard]] bool may_lose() const { return !reliable() && (loss_percent != 0 || size > 65536); }
};

[[nodiscard]] Case parse_case(const std::string& line);

}  // namespace interop
