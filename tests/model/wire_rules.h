// SPDX-License-Identifier: BSD-3-Clause
// WireRules: watches the frames of one party that is the core and checks each against what the specification allows at
// that moment. It knows the messages (Oracle), what was delivered and what was sent; nothing of the core's inside. Read
// IBTA volume 1, 9.7.2 to 9.7.5.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/model/oracle.h"
#include "wire/packet_view.h"

namespace rocemu::model {

class WireRules {
  public:
    // `mine`: messages that the party sends; `theirs`: messages that it receives.
    WireRules(const Schedule& schedule, uint32_t who, const Oracle& mine, const Oracle& theirs)
        : schedule_(schedule), who_(who), mine_(mine), theirs_(theirs) {}

    void delivered(const wire::PacketView& p, Instant now);
    void sent(const wire::PacketView& p, Instant now);
    [[nodiscard]] const std::string& error() const { return error_; }

  private:
    void sent_request(const wire::PacketView& p, Instant now);
    void sent_acknowledge(const wire::PacketView& p, uint64_t offset);
    void check_credits(const wire::PacketView& p);
    void sent_response(const wire::PacketView& p, uint64_t offset);
    void check_request_bytes(const wire::PacketView& p, const Message& m, uint64_t offset);
    void heard_response(const wire::PacketView& p, Instant now);
    [[nodiscard]] uint64_t lower_una() const;
    void advance_upper();
    void fail(const std::string& what, const wire::PacketView& p);

    const Schedule& schedule_;
    uint32_t who_;
    const Oracle& mine_;
    const Oracle& theirs_;
    std::string error_;
    // Requester side, PSN offsets of `mine`.
    uint64_t next_ = 0;       // first never sent
    uint64_t acked_ = 0;      // below: acknowledged by something that was delivered
    uint64_t told_ = 0;       // below: acknowledged by a packet that cannot have been dropped for want of room
    uint64_t upper_una_ = 0;  // the core's una is at most this
    std::vector<bool> data_;  // READ and atomic answers delivered
    Instant rnr_until_{0};
    uint64_t refused_ = 0;  // the packet of that wait
    // Responder side, PSN offsets of `theirs`.
    std::vector<bool> requests_;  // delivered
    uint64_t expected_ = 0;       // the core's expected PSN is at most this
    uint64_t acknowledged_ = 0;   // one past the newest PSN it has acknowledged
    uint64_t verified_ = 0;       // below: placement was checked
};

}  // namespace rocemu::model
