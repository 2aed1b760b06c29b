// Scratch memory that begins at a cache line and only grows.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "engine/base/check.h"

namespace tandem {

class AlignedBytes {
 public:
  // At least `bytes`; what was there before is lost when it grows.
  template <typename T = std::byte>
  T* get(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes > capacity_) {
      capacity_ = (bytes + bytes / 4 + 4095) / 4096 * 4096;
      data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, capacity_)));
      TANDEM_CHECK(data_ != nullptr, "no {} bytes of scratch memory", capacity_);
    }
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t capacity_ = 0;
};

}  // namespace tandem
