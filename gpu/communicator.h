// Devices that compute one model together (tensor parallelism). Each is a rank of a group and holds
// one end of it, a Communicator. Collective operations (Operations::all_reduce and all_gather) are
// enqueued on one stream of every rank, in the same order on all ranks.
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

  // Allocates memory of this rank's device for operations of the group.
  virtual Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) = 0;
  // Allocates a few words that kernels of all ranks read and write: on this rank's device if the
  // others can access that, otherwise on the host. The contents are undefined.
  virtual Result<Buffer> allocate_words(std::size_t bytes, std::string_view purpose) = 0;

  // Announces that this rank cannot take part in operations that the others may wait for. These
  // then fail with StatusCode::cancelled and the text `what`.
  virtual void leave(std::string_view what) noexcept = 0;
  // After a failure on any rank, the operations of all ranks fail until each rank has called this,
  // with nothing in flight on any of their streams.
  virtual void reset() noexcept = 0;
};

}  // namespace tandem
