// SPDX-License-Identifier: BSD-3-Clause
// See send_queue.h. The acknowledged border: the only place where una moves.
#include "transport/send_queue.h"

namespace rocemu::transport {

bool SendQueue::acknowledge(uint64_t target) {
    acked = std::max(acked, target);
    advance();
    return una >= target;
}

void SendQueue::take_response() {
    ++una;
    leave_acknowledged();
    advance();
}

void SendQueue::advance() {
    while (una < acked && una_seq != started_seq) {
        const SendEntry& e = ring.at(una_seq);
        // IBTA 9.7.5.1.2, 9.7.5.2.4: an acknowledgement of a later PSN does not replace the response data of a READ
        // or an atomic; it says that they were lost.
        if (e.wants_data()) break;
        una = std::min(acked, e.end);
        leave_acknowledged();
    }
    if (cur < una) rewind();
}

void SendQueue::skip_acknowledged() {
    while (cur < std::min(high, acked)) {
        const SendEntry& e = ring.at(cur_seq);
        if (e.wants_data()) return;
        cur = std::min(acked, e.end);
        if (cur == e.end) ++cur_seq;
    }
}

void SendQueue::leave_acknowledged() {
    // Local operations have no packets: they leave together with what is before them.
    while (una_seq != started_seq && una == ring.at(una_seq).end) {
        if (ring.at(una_seq).wants_data()) --data_requests;
        // A message that is not sent completely cannot be acknowledged completely: end lies beyond high.
        ++una_seq;
    }
}

void SendQueue::pass_local() {
    if (cur_seq == started_seq) {
        SendEntry& e = ring.at(cur_seq);
        e.first = e.end = high;
        e.first_request = requests_sent;
        ++started_seq;
    }
    ++cur_seq;
    if (una_seq != started_seq) leave_acknowledged();
}

}  // namespace rocemu::transport
