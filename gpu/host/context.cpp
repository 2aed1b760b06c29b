#include "gpu/host/context.h"

#include <new>

namespace tandem::host {

void* Scratch::reserve(std::size_t bytes) {
  if (bytes > bytes_) {
    data_.reset();
    bytes_ = 0;
    const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
    data_.reset(std::aligned_alloc(4096, rounded));
    if (data_ == nullptr) throw std::bad_alloc();
    bytes_ = rounded;
  }
  return data_.get();
}

}  // namespace tandem::host
