// SPDX-License-Identifier: BSD-3-Clause
// Replier: the right to answer one request, exactly once; may be kept until shards or neighbours have answered.
// Copyable so that it fits into closures; the last copy without an answer is a mistake of ours.
#pragma once

#include <memory>

#include "control/session.h"

namespace rocemu::control {

class Replier {
  public:
    Replier(std::shared_ptr<Session> session, const abi::MessageHeader& request)
        : session_(std::move(session)), type_(request.type), request_id_(request.request_id) {}

    template <typename Reply>
    void send(const Reply& reply, std::vector<UniqueFd> fds = {}) {
        finish(0, {reinterpret_cast<const std::byte*>(&reply), sizeof reply}, std::move(fds));
    }
    void fail(int error) { finish(error, {}, {}); }

  private:
    void finish(int status, std::span<const std::byte> body, std::vector<UniqueFd> fds) {
        abi::MessageHeader header;
        header.type = type_;
        header.request_id = request_id_;
        header.status = status;
        session_->send(header, body, std::move(fds));
        session_->request_ends();
    }

    std::shared_ptr<Session> session_;
    uint16_t type_;
    uint32_t request_id_;
};

}  // namespace rocemu::control
