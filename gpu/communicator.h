// Devices that compute one model together (tensor parallelism): each is a rank of a group, and
// holds an end of it. The operations that all ranks take part in (Operations::all_reduce and
// all_gather) are enqueued on a stream of each, in the same order on all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace tandem {

class Buffer;

// One rank's end. Made by Device::connect; outlived by the group's devices. Thread-safe.
class Communicator {
 public:
  static constexpr std::int32_t kMaxRanks = 8;

  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual std::int32_t rank() const = 0;
  virtual std::int32_t size() const = 0;

  // Memory of this rank's device for what operations of the group share.
  virtual Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) = 0;
  // Memory for a few words that kernels of all ranks read and write: this rank's device's, where
  // the others reach that, else the host's. Undefined contents.
  virtual Result<Buffer> allocate_words(std::size_t bytes, std::string_view purpose) = 0;

  // This rank cannot take part in what the others may wait for: they fail, with
  // StatusCode::cancelled and what is said here.
  virtual void leave(std::string_view what) noexcept = 0;
  // After a failure on any rank the operations of all fail until this is called on each, with
  // nothing under way on any of their streams.
  virtual void reset() noexcept = 0;
};

}  // namespace tandem
