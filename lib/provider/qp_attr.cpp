// SPDX-License-Identifier: BSD-3-Clause
// ibv_qp_attr to the record that travels to the daemon, and back, by the list in abi/qp_attr_fields.def. Fields outside
// the mask are sent as zero: what the application left there uninitialised is nobody's affair.
#include <cstring>

#include "base/verbs_types.h"
#include "provider/qp.h"

namespace rocemu::provider {

abi::QpAttrRecord record_of(const ibv_qp_attr& a, int mask) {
    abi::QpAttrRecord r;
    const auto has = [mask](uint32_t bit) { return (static_cast<uint32_t>(mask) & bit) != 0; };
    const bool address = has(qp_attr_mask::kAv);
    if (address) std::memcpy(r.dgid, a.ah_attr.grh.dgid.raw, sizeof r.dgid);
#define FIELD(record, core, verbs, bit) \
    if (has(qp_attr_mask::bit)) r.record = static_cast<decltype(r.record)>(a.verbs);
#define ADDRESS_FIELD(record, core, verbs) \
    if (address) r.record = static_cast<decltype(r.record)>(a.ah_attr.verbs);
#include "abi/qp_attr_fields.def"
    return r;
}

void attr_of(const abi::QpAttrRecord& r, const ibv_qp_cap& cap, ibv_qp_attr& a) {
    a = {};
    a.cap = cap;
    std::memcpy(a.ah_attr.grh.dgid.raw, r.dgid, sizeof r.dgid);
    a.sq_draining = r.sq_draining;
#define FIELD(record, core, verbs, bit) a.verbs = static_cast<decltype(a.verbs)>(r.record);
#define ADDRESS_FIELD(record, core, verbs) a.ah_attr.verbs = static_cast<decltype(a.ah_attr.verbs)>(r.record);
#include "abi/qp_attr_fields.def"
}

}  // namespace rocemu::provider
