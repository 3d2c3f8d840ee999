// SPDX-License-Identifier: BSD-3-Clause
// Which modify_qp calls are allowed: per QP type and pair of states the attributes that must and may be given, and the
// values each attribute may have. Read IBTA volume 1, 10.3.1 (states), 11.2.5.2 (modify QP), and the man page
// ibv_modify_qp(3), whose tables the rows repeat.
#pragma once

#include <cstdint>

#include "transport/qp_attr.h"

namespace rocemu::transport {

struct ModifyLimits {
    uint32_t max_rd_atomic = 0;       // as requester
    uint32_t max_dest_rd_atomic = 0;  // as responder
    uint8_t max_path_mtu = 5;         // enum ibv_mtu
};

struct Transition {
    QpState from;
    QpState to;
    uint32_t required;  // besides kState
    uint32_t optional;
};

// The row for this type and pair of states, or null: not a transition.
[[nodiscard]] const Transition* find_transition(QpType type, QpState from, QpState to);

// 0, or EINVAL and in `bad_attr` (not null) the name of the first offending attribute: "qp_state" for the transition
// itself, "missing ..." names for required attributes, the plain name for a foreign or invalid one.
[[nodiscard]] int check_modify(QpType type, QpState current, const QpAttr& attr, uint32_t mask,
                               const ModifyLimits& limits, const char** bad_attr);

// Copies the attributes in `mask` (state included) from `from` to `to`.
void apply_modify(QpAttr& to, const QpAttr& from, uint32_t mask);

}  // namespace rocemu::transport
