// A /dev/shm that is this test's and its children's alone, so that it may be filled up.
#pragma once

#include <cstddef>
#include <string>

namespace tandem {

// From now on this process sees a /dev/shm of its own, of so many bytes. Returns why not; empty: it
// does. Before any thread is started.
std::string make_shm_private(std::size_t bytes);

// Takes all that is free in /dev/shm, until it goes.
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
