// SPDX-License-Identifier: BSD-3-Clause
// See receive_offer.h.
#include "engine/receive_offer.h"

#include "engine/qp_record.h"
#include "engine/rq_reader.h"
#include "engine/srq.h"

namespace rocemu::engine {

ReceiveOffer::ReceiveOffer(QpRecord& record, const wire::OpcodeInfo& op, Completions& completions)
    : record_(record), completions_(completions) {
    if (record.srq != nullptr)
        lent_ = op.takes_receive() && lend_receive(record, completions);
    else if (op.consumes_receive())
        top_up_if_low(record);
}

ReceiveOffer::~ReceiveOffer() {
    if (lent_) settle_receive(record_, completions_);
}

}  // namespace rocemu::engine
