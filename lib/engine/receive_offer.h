// SPDX-License-Identifier: BSD-3-Clause
// ReceiveOffer: before a packet goes into the core, and as long as this lives: the receive WQE it may need is there, from
// the QP's own queue or lent by the shared one, which gets it back unless the core took it.
#pragma once

#include "wire/opcode.h"

namespace rocemu::engine {

class Completions;
struct QpRecord;

class ReceiveOffer {
  public:
    ReceiveOffer(QpRecord& record, const wire::OpcodeInfo& op, Completions& completions);
    ~ReceiveOffer();
    ReceiveOffer(const ReceiveOffer&) = delete;
    ReceiveOffer& operator=(const ReceiveOffer&) = delete;

  private:
    QpRecord& record_;
    Completions& completions_;
    bool lent_ = false;
};

}  // namespace rocemu::engine
