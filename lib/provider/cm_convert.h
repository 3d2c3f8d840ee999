// SPDX-License-Identifier: BSD-3-Clause
// Between the structures of <rdma/rdma_user_cm.h> and the messages of the border.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstddef>

#include "abi/messages.h"

namespace rocemu::provider {

// False: neither IPv4 nor IPv6 (AF_IB above all: librdmacm then uses the IP commands). Family 0 is an unset address.
bool address_from(const void* socket_address, size_t size, abi::CmAddress& out);
// Writes a sockaddr_in or sockaddr_in6 into `room` bytes; returns its size, 0 for an unset address.
size_t address_to(const abi::CmAddress& address, void* out, size_t room);
// The same as a sockaddr_ib: the GID, and the port as its service id.
size_t ib_address_to(const abi::CmQueryReply& in, bool source, void* out, size_t room);

void conn_param_from(const rdma_ucm_conn_param& in, abi::CmConnParam& out);
void conn_param_to(const abi::CmConnParam& in, rdma_ucm_conn_param& out);
void ud_param_to(const abi::CmGetEventReply& in, rdma_ucm_ud_param& out);
void path_to(const abi::CmQueryReply& in, ib_user_path_rec& out);
// The same as it is in a MAD, 64 bytes: IBTA volume 1, 15.2.5.16.
void path_record_to(const abi::CmQueryReply& in, std::byte* out);
void qp_attr_to(const abi::CmInitQpAttrReply& in, ib_uverbs_qp_attr& out);

}  // namespace rocemu::provider
