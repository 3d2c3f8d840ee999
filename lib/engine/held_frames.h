// SPDX-License-Identifier: BSD-3-Clause
// HeldFrames: received frames that wait for the placement of their payload, a list per QP in order of arrival. Nodes
// come from one block, so holding never allocates.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/port.h"

namespace rocemu::engine {

struct HeldFrame {
    Frame frame;
    uint64_t last_tag = 0;  // free when everything up to this tag is reported; kNotYet: its requests are in the core
    HeldFrame* next = nullptr;
    static constexpr uint64_t kNotYet = ~uint64_t{0};
};

struct HeldList {
    HeldFrame* head = nullptr;
    HeldFrame* tail = nullptr;
};

class HeldFrames {
  public:
    explicit HeldFrames(uint32_t capacity) : nodes_(new HeldFrame[capacity]), room_(capacity) {
        for (uint32_t i = 0; i < capacity; ++i) {
            nodes_[i].next = free_;
            free_ = &nodes_[i];
        }
    }
    [[nodiscard]] uint32_t room() const { return room_; }
    // Precondition: room() > 0.
    void append(HeldList& list, const Frame& frame, uint64_t tag = HeldFrame::kNotYet) {
        HeldFrame* node = free_;
        free_ = node->next;
        --room_;
        *node = {frame, tag, nullptr};
        (list.head == nullptr ? list.head : list.tail->next) = node;
        list.tail = node;
    }
    // Precondition: not empty. The frame becomes the caller's.
    Frame pop(HeldList& list) {
        HeldFrame* node = list.head;
        list.head = node->next;
        const Frame frame = node->frame;
        node->next = free_;
        free_ = node;
        ++room_;
        return frame;
    }

    // The first frame with this tag, wherever it is in the list. False: there is none.
    bool take(HeldList& list, uint64_t tag, Frame& frame) {
        HeldFrame* before = nullptr;
        HeldFrame* node = list.head;
        for (; node != nullptr && node->last_tag != tag; node = node->next) before = node;
        if (node == nullptr) return false;
        (before == nullptr ? list.head : before->next) = node->next;
        if (list.tail == node) list.tail = before;
        frame = node->frame;
        node->next = free_;
        free_ = node;
        ++room_;
        return true;
    }

  private:
    std::unique_ptr<HeldFrame[]> nodes_;
    HeldFrame* free_ = nullptr;
    uint32_t room_;
};

}  // namespace rocemu::engine
