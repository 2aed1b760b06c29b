// A /dev/shm for only this test and its children, so that it may be filled up.
#pragma once

#include <cstddef>
#include <string>

namespace tandem {

// Gives this process its own /dev/shm of this size. Call it before any thread is started. Returns
// an empty text, or the reason why that is impossible.
std::string make_shm_private(std::size_t bytes);

// Takes all free memory of /dev/shm until it is destroyed.
class FullShm {
 public:
  FullShm();
  ~FullShm();
  FullShm(const FullShm&) = delete;
  FullShm& operator=(const FullShm&) = delete;

  std::size_t bytes() const { return bytes_; }

 private:
  int fd_;
  std::size_t bytes_ = 0;
};

}  // namespace tandem
