// SPDX-License-Identifier: BSD-3-Clause
// Side: the verbs objects of one side of one case, requester or responder, from creation to the report. The steps are
// called in the order in which they stand here, with an exchange over the channel between them (driver.cpp).
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "arena.h"
#include "case.h"
#include "channel.h"
#include "device.h"
#include "outcome.h"

namespace interop {

struct Announcement {
    uint8_t possible = 0;  // else this device does not have what the case needs
    char why[160] = {};
    uint32_t qpn = 0, psn = 0;
    ibv_gid gid{};
    uint64_t address = 0, region_end = 0;
    uint32_t rkey = 0, other_rkey = 0;
};

struct Ready {
    uint32_t invalidate[8] = {};
};

class Side {
  public:
    Side(Device& device, const Case& c, bool requester);
    ~Side();
    Side(const Side&) = delete;

    Announcement open();
    void connect(const Announcement& peer);
    // The responder's receives and windows.
    Ready prepare();
    // Posts all messages (requester).
    void post(const Ready& peer);
    // Polls once. Returns whether there was something.
    bool poll();
    // RNR that ends: the receives that were held back.
    void post_held_back();

    [[nodiscard]] bool all_sent() const { return outcome_.finished() >= case_.messages(); }
    [[nodiscard]] std::string outcome();
    // Whether nothing is under way any more that no completion tells of: WRITEs that are not acknowledged.
    [[nodiscard]] bool arrived();
    // Empty, or what is wrong in this side's memory.
    [[nodiscard]] std::string check_memory();

  private:
    void create_qp(int access);
    void create_windows();
    void post_receive(uint32_t message);
    [[nodiscard]] ibv_mr* register_memory(ibv_pd* pd, int access);
    [[nodiscard]] int rights() const;  // of the responder's region and queue pair
    [[nodiscard]] ibv_send_wr request(uint32_t message, const Ready& peer, ibv_sge& sge);
    [[nodiscard]] std::string check_requester();
    [[nodiscard]] std::string check_responder();
    [[nodiscard]] std::string state();
    void must(bool ok, const char* what) const;

    Device& device_;
    const Case& case_;
    bool requester_;
    Arena arena_;
    Outcome outcome_;
    Announcement peer_;
    int gid_index_ = -1;
    ibv_pd *pd_ = nullptr, *other_pd_ = nullptr;
    ibv_cq* cq_ = nullptr;
    ibv_srq* srq_ = nullptr;
    ibv_mr *mr_ = nullptr, *other_mr_ = nullptr;
    ibv_qp* qp_ = nullptr;
    ibv_ah* ah_ = nullptr;
    ibv_mw* windows_[8] = {};
    uint32_t window_keys_[8] = {};
    uint32_t receives_ = 0;
};

// What a device lacks for a case, thrown by Side::open().
struct NotSupported : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace interop
