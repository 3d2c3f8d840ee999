// SPDX-License-Identifier: BSD-3-Clause
// Requests of tools: texts, captures, impairments of the fabric.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "control/captures.h"
#include "control/documents.h"
#include "control/log.h"
#include "control/services/services.h"

namespace rocemu::control {
namespace {

template <size_t N>
std::string text_of(const char (&field)[N]) {
    return {field, strnlen(field, N)};
}

constexpr uint32_t kMillion = 1'000'000;

}  // namespace

void handle(Call& call, const abi::AdminTextRequest& request) {
    std::string& document = call.session->document;
    if (request.offset == 0) {
        if (request.document == abi::kAdminStatus)
            document = status_document(call.control);
        else if (request.document == abi::kAdminCounters)
            document = counters_document(call.control);
        else
            return call.reply.fail(EINVAL);
    }
    if (request.offset > document.size()) return call.reply.fail(EINVAL);
    abi::AdminTextReply reply;
    reply.total = static_cast<uint32_t>(document.size());
    reply.length = std::min<uint32_t>(reply.total - request.offset, abi::kAdminChunk);
    std::memcpy(reply.text, document.data() + request.offset, reply.length);
    call.reply.send(reply);
}

void handle(Call& call, const abi::AdminCaptureRequest& request) {
    const Device* device = call.control.find_device(text_of(request.device));
    if (!device) return call.reply.fail(ENODEV);
    Captures& captures = *call.control.captures;
    if (request.stop) {
        const bool found =
            captures.stop(*call.session, device->id(), [reply = call.reply](const Captures::Outcome& outcome) mutable {
                if (outcome.error != 0) return reply.fail(outcome.error);
                abi::AdminCaptureReply r;
                r.frames = outcome.frames;
                r.missed = outcome.missed;
                reply.send(r);
            });
        if (!found) call.reply.fail(ENOENT);
        return;
    }
    if (call.fds.empty()) return call.reply.fail(EBADF);
    if (const int error = captures.start(*call.session, device->id(), std::move(call.fds[0]), request.snap_length))
        return call.reply.fail(error);
    call.reply.send(abi::AdminCaptureReply{});
}

void handle(Call& call, const abi::AdminImpairRequest& request) {
    const Device* device = call.control.find_device(text_of(request.device));
    if (!device) return call.reply.fail(ENODEV);
    if (!device->fabric_nic()) return call.reply.fail(EOPNOTSUPP);
    const uint32_t shares[] = {request.drop_ppm, request.duplicate_ppm, request.reorder_ppm, request.corrupt_ppm};
    if (std::any_of(std::begin(shares), std::end(shares), [](uint32_t s) { return s > kMillion; }) ||
        request.delay_ns > 10ull * kSecond)
        return call.reply.fail(EINVAL);
    fabric::Impairments impairments;
    impairments.seed = request.seed;
    impairments.drop_ppm = request.drop_ppm;
    impairments.duplicate_ppm = request.duplicate_ppm;
    impairments.reorder_ppm = request.reorder_ppm;
    impairments.corrupt_ppm = request.corrupt_ppm;
    impairments.delay = static_cast<Duration>(request.delay_ns);
    call.control.fabric->set_impairments(*device->fabric_nic(), impairments);
    log::info("{}: impairments: drop {}, duplicate {}, reorder {}, corrupt {} ppm, delay {} ns", device->name(),
              request.drop_ppm, request.duplicate_ppm, request.reorder_ppm, request.corrupt_ppm, request.delay_ns);
    call.reply.send(abi::AdminImpairReply{});
}

}  // namespace rocemu::control
