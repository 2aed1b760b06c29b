// Scratch memory that begins at a page boundary and only grows.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace tandem {

class AlignedBytes {
 public:
  // At least `count` elements with undefined contents; growing discards the old contents. Throws
  // std::bad_alloc.
  template <typename T = std::byte>
  T* get(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes > capacity_) grow(bytes);
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  static constexpr std::size_t kPage = 4096;

  void grow(std::size_t bytes) {
    capacity_ = 0;
    data_.reset();  // first, so that both never exist at the same time
    const std::size_t wanted = (bytes + bytes / 4 + kPage - 1) / kPage * kPage;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, wanted)));
    if (data_ == nullptr) throw std::bad_alloc();
    capacity_ = wanted;
  }

  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t capacity_ = 0;
};

}  // namespace tandem
