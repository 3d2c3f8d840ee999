// SPDX-License-Identifier: BSD-3-Clause
// By the list in abi/qp_attr_fields.def. Numbers too large for the core's narrower types become values the core refuses,
// never valid ones.
#include "control/qp_attr_record.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace rocemu::control {
namespace {

template <typename T>
void take(T& to, uint32_t v) {
    if constexpr (std::is_enum_v<T>)
        to = static_cast<T>(std::min<uint32_t>(v, std::numeric_limits<std::underlying_type_t<T>>::max()));
    else
        to = static_cast<T>(std::min<uint32_t>(v, std::numeric_limits<T>::max()));
}

template <typename T, typename V>
void give(T& to, V v) {
    to = static_cast<T>(v);
}

}  // namespace

transport::QpAttr attr_of(const abi::QpAttrRecord& r) {
    transport::QpAttr a;
    std::copy(std::begin(r.dgid), std::end(r.dgid), a.ah.dgid.begin());
#define FIELD(record, core, verbs, mask) take(a.core, r.record);
#define ADDRESS_FIELD(record, core, verbs) take(a.ah.core, r.record);
#include "abi/qp_attr_fields.def"
    a.sq_draining = r.sq_draining;
    a.max_burst = r.max_burst;
    return a;
}

abi::QpAttrRecord record_of(const transport::QpAttr& a) {
    abi::QpAttrRecord r;
    std::copy(a.ah.dgid.begin(), a.ah.dgid.end(), r.dgid);
#define FIELD(record, core, verbs, mask) give(r.record, a.core);
#define ADDRESS_FIELD(record, core, verbs) give(r.record, a.ah.core);
#include "abi/qp_attr_fields.def"
    r.sq_draining = a.sq_draining;
    r.max_burst = a.max_burst;
    return r;
}

}  // namespace rocemu::control
