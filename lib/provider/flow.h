// SPDX-License-Identifier: BSD-3-Clause
// What raw packet QPs have beside the queues of every QP: flow rules (flow.cpp), and receive queues of their own over
// which a QP without any spreads its frames (receive_wq.cpp). Table entries of the context.
#pragma once

#include "provider/objects.h"

namespace rocemu::provider {

struct IndTable;
struct Qp;

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr);
int destroy_flow(ibv_flow* flow);

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr);
int modify_wq(ibv_wq* wq, ibv_wq_attr* attr);
int destroy_wq(ibv_wq* wq);
ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr);
int destroy_rwq_ind_table(ibv_rwq_ind_table* table);

// A QP that hashes to the queues of a table, and its end.
Qp* make_rss_qp(const ibv_qp_init_attr_ex& attr);
int destroy_rss_qp(Qp* qp);

// The fields that receive hashing knows (enum ibv_rx_hash_fields).
inline constexpr uint64_t kRxHashFields = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 |
                                          IBV_RX_HASH_DST_IPV6 | IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP |
                                          IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;

}  // namespace rocemu::provider
