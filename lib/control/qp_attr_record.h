// SPDX-License-Identifier: BSD-3-Clause
// Attributes of a QP between the border towards applications and the core: the same fields, other containers.
#pragma once

#include "abi/messages.h"
#include "transport/qp_attr.h"

namespace rocemu::control {

[[nodiscard]] transport::QpAttr attr_of(const abi::QpAttrRecord& record);
[[nodiscard]] abi::QpAttrRecord record_of(const transport::QpAttr& attr);

}  // namespace rocemu::control
