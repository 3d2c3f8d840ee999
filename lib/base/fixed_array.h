// SPDX-License-Identifier: BSD-3-Clause
// FixedArray: value-initialised elements in one piece whose number is known at construction, out of a memory resource
// that the owner is given (which outlives it). Single owner; moves, does not copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <utility>

namespace rocemu {

template <typename T>
class FixedArray {
  public:
    explicit FixedArray(size_t size, std::pmr::memory_resource* memory = std::pmr::new_delete_resource())
        : items_(static_cast<T*>(memory->allocate(size * sizeof(T), alignof(T)))), memory_(memory), size_(size) {
        std::uninitialized_value_construct_n(items_, size_);
    }
    ~FixedArray() {
        if (items_ == nullptr) return;
        std::destroy_n(items_, size_);
        memory_->deallocate(items_, size_ * sizeof(T), alignof(T));
    }
    FixedArray(FixedArray&& other) noexcept
        : items_(std::exchange(other.items_, nullptr)), memory_(other.memory_), size_(other.size_) {}
    FixedArray& operator=(FixedArray&& other) noexcept {
        std::swap(items_, other.items_);
        std::swap(memory_, other.memory_);
        std::swap(size_, other.size_);
        return *this;
    }
    FixedArray(const FixedArray&) = delete;
    FixedArray& operator=(const FixedArray&) = delete;

    T& operator[](size_t i) { return items_[i]; }
    const T& operator[](size_t i) const { return items_[i]; }
    [[nodiscard]] T* data() { return items_; }
    [[nodiscard]] const T* data() const { return items_; }

  private:
    T* items_;
    std::pmr::memory_resource* memory_;
    size_t size_;
};

}  // namespace rocemu
