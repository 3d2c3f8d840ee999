// SPDX-License-Identifier: BSD-3-Clause
// MessageKind: which message an MRA or a REJ talks about. Read IBTA volume 1, 12.6.6, 12.6.7 (Message MRAed, Message
// REJected).
#pragma once

#include <cstdint>

namespace rocemu::cm {

enum class MessageKind : uint8_t {
    Req = 0,
    Rep = 1,
    Other = 2,  // REJ: none of the others, for instance after a timeout in between; MRA: a LAP
};

}  // namespace rocemu::cm
