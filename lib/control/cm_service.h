// SPDX-License-Identifier: BSD-3-Clause
// CmService: the connection manager (lib/cm) between QP 1 of the devices, the clock, and the sessions' objects. Every
// session with an event channel is an owner there, under its session number, so lib/cm refuses what is not its own.
// Read IBTA volume 1, chapter 12, annex A11, and rdma_cm(7).
#pragma once

#include <unordered_map>

#include "cm/manager.h"
#include "control/cm_objects.h"
#include "engine/gsi.h"

namespace rocemu::control {

struct Control;
class Session;

class CmService {
  public:
    explicit CmService(Control& control);

    cm::CmManager& manager() { return manager_; }
    // A MAD from the wire.
    void receive(const engine::ReceivedMad& mad);
    void tick(Instant now);
    // Carries out what a command left to be done: MADs to send, events to deliver.
    void run();

    // False: there are too many sessions.
    bool admit(Session& session);
    // The session ends: everything of it goes, peers are told.
    void forget(Session& session);
    void close_channel(Session& session, uint32_t channel);
    // The application closed it.
    void on_closed(uint32_t session, uint32_t channel);

    // A new id on a channel; nullptr: the quota of the session is used up. Its number in *number.
    CmIdObject* create(Session& session, uint32_t channel, uint32_t* number);
    // How many of its events were fetched.
    uint32_t destroy(Session& session, uint32_t id);
    uint32_t leave(Session& session, uint32_t membership);
    // Finds the neighbour for the id's remote_gid: an event tells when it is done.
    static constexpr uint32_t kMaxSearches = 64;  // of a session at a time
    void resolve(Session& session, uint32_t id);
    // Requests to the id's port become events of it.
    cm::Status listen(Session& session, uint32_t id, uint32_t backlog);
    // The connection of an id, by which its events find it.
    void attach(Session& session, uint32_t id, cm::CmId connection);
    void deliver(Session& session, const CmIdObject& object, CmPendingEvent event);
    // An event that needs no more than a number and a status.
    void deliver(Session& session, uint32_t id, uint32_t event, int32_t status);
    // The object of a number if it is still the one with this serial.
    CmIdObject* find(uint32_t session, uint32_t id, uint64_t serial);
    uint64_t next_serial() { return ++serials_; }
    uint32_t random_psn();

  private:
    struct Place {
        uint32_t session, id;
    };
    void ask(Session& session, uint32_t id);
    void search(Session& session);
    void resolved(Session& session, uint32_t id, uint64_t serial, int error);
    void send(const cm::TxMad& mad);
    void on_event(const cm::Event& event);
    void on_request(const cm::Event& event);

    Control& control_;
    cm::CmManager manager_;
    std::unordered_map<cm::CmId, Place> by_connection_;
    std::unordered_map<uint64_t, Place> listeners_;  // by the serial, which is the cookie of the binding
    uint64_t serials_ = 0;
    uint32_t mad_psn_ = 0;
    uint64_t random_;
};

// A status of lib/cm as the rdma_cm device tells it.
[[nodiscard]] int errno_of(cm::Status status);

}  // namespace rocemu::control
