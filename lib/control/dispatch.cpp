// SPDX-License-Identifier: BSD-3-Clause
// The table of messages, made from abi/messages.def. Who may ask what: before hello only hello; tools (admin) only what
// tools need; applications everything else.
#include "control/dispatch.h"

#include <cerrno>
#include <cstring>

#include "control/log.h"

namespace rocemu::control {
namespace {

using abi::MessageType;

bool for_tools_only(MessageType type) {
    return type == MessageType::AdminText || type == MessageType::AdminCapture || type == MessageType::AdminImpair;
}

// 0 or an errno value.
int refusal(const Session& session, MessageType type) {
    if (type == MessageType::Hello) return session.greeted ? EPROTO : 0;
    if (!session.greeted) return EPROTO;
    if (type == MessageType::ListDevice) return 0;
    return session.admin == for_tools_only(type) ? 0 : EPERM;
}

// A hello of another version may have another size; its first fields are the version in every one of them.
bool other_version(MessageType type, std::span<const std::byte> body) {
    uint16_t major = 0;
    if (type != MessageType::Hello || body.size() < sizeof major) return false;
    std::memcpy(&major, body.data(), sizeof major);
    return major != abi::kVersionMajor;
}

template <typename Request>
void invoke(Call& call, MessageType type, std::span<const std::byte> body) {
    if (other_version(type, body)) return call.reply.fail(EPROTONOSUPPORT);
    if (body.size() != sizeof(Request)) return call.reply.fail(EPROTO);
    if (const int error = refusal(*call.session, type)) return call.reply.fail(error);
    Request request;
    std::memcpy(&request, body.data(), sizeof request);
    handle(call, request);
}

}  // namespace

void dispatch(Control& control, const std::shared_ptr<Session>& session, const abi::MessageHeader& header,
              std::span<const std::byte> body, Session::Fds fds) {
    session->request_begins();
    const auto type = static_cast<MessageType>(header.type);
    // That the daemon has no descriptor left is no fault of this program. Only RegMr and ReregMr do as well without their own.
    const bool refused = fds.lost && type != MessageType::RegMr && type != MessageType::ReregMr;
    if (fds.lost) fds.list.clear();
    Call call{control, session, Replier(session, header), std::move(fds.list)};
    if (refused) return call.reply.fail(EMFILE);
    switch (type) {
#define MESSAGE(name, number) \
    case MessageType::name:   \
        return invoke<abi::name##Request>(call, type, body);
#include "abi/messages.def"
#undef MESSAGE
    }
    log::debug("{}: unknown message {}", session->name(), header.type);
    call.reply.fail(EPROTO);
}

}  // namespace rocemu::control
