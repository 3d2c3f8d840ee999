// SPDX-License-Identifier: BSD-3-Clause
// Outcome: what one side of a case saw, as a line of text that can be compared: its completions in order (runs are
// counted), the state of its queue pair, its asynchronous events.
#pragma once

#include <infiniband/verbs.h>

#include <string>
#include <vector>

#include "case.h"

namespace interop {

class Outcome {
  public:
    void add_send(const Case& c, const ibv_wc& wc);
    void add_receive(const Case& c, const ibv_wc& wc, uint32_t invalidated);
    // A request that could not even be posted.
    void add_refused(uint32_t message, int error);
    void add_events(const std::vector<std::string>& names);
    [[nodiscard]] std::string text(const std::string& qp_state) const;
    // Completions and refusals.
    [[nodiscard]] size_t finished() const { return entries_.size() + refused_.size(); }
    // By message (of a responder: by receive): whether it completed successfully.
    [[nodiscard]] const std::vector<bool>& good() const { return good_; }

    // Messages that an immediate of a successful receive named.
    [[nodiscard]] const std::vector<uint32_t>& named() const { return named_; }

  private:
    std::vector<uint32_t> named_;
    std::vector<std::string> entries_, events_, refused_;
    std::vector<bool> good_;
    uint32_t next_ = 0;
};

[[nodiscard]] uint32_t immediate_of(uint32_t message);  // as in the WR: in network order

}  // namespace interop
