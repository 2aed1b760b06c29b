// A group of ranks on GPUs or on host devices, and their sums side by side.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gpu/collective_choice.h"
#include "gpu/device.h"
#include "tests/support/test_seed.h"

namespace tandem {

// On a machine of fewer GPUs than ranks several are on one.
std::unique_ptr<Device> make_rank(bool on_gpu, std::int32_t rank, const GroupOptions& group = {});

// A group, with a stream on each device and memory for one operation's operands.
struct Group {
  static constexpr std::size_t kBytes = std::size_t{48} << 20;

  Group(bool on_gpu, std::int32_t size, const GroupOptions& options = {});
  std::size_t size() const { return devices.size(); }

  // body(rank), on a thread for each, as the engine enqueues.
  template <typename Body>
  void on_every_rank(const Body& body) {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < size(); ++rank)
      threads.emplace_back([&, rank] { body(rank); });
  }

  // What begins at `used` in the rank's memory.
  TensorView at(std::size_t rank, DType dtype, std::int64_t rows, std::int64_t cols) const {
    return {memory[rank].data() + used, dtype, {rows, cols}};
  }
  void move_on(std::size_t bytes) { used += (bytes + 255) / 256 * 256; }

  void put(std::size_t rank, const TensorView& to, const void* from);
  std::vector<std::byte> get(std::size_t rank, const TensorView& from);

  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Communicator>> ends;
  std::vector<Buffer> memory;
  std::vector<std::unique_ptr<Stream>> streams;
  std::size_t used = 0;
};

struct Shape {
  std::int64_t rows;
  std::int64_t width;
  DType weight;  // i32: no norm
  DType out;
  bool accumulate;
};

// How sums are to agree with those of host devices.
enum class Agreement {
  to_the_bit,  // added up in the order of the ranks
  rounded,     // in another, the same on all ranks
};

class CommunicatorTest : public ::testing::Test {
 protected:
  std::vector<float> numbers(std::int64_t count);
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  Shape pick_shape(std::int64_t most_rows);

  // `steps` all-reduces one behind the other into one residual, `launches` times over; recorded
  // on the GPUs if so said.
  void expect_as_on_the_host(Group& gpus, Group& hosts, const Shape& shape, int steps, int launches,
                             bool recorded, Agreement agreement = Agreement::to_the_bit);
  // An all-gather of parts so wide, which is the same parts side by side on all ranks.
  void expect_gathered(Group& group, const std::vector<std::int64_t>& widths, std::int64_t rows,
                       bool recorded);

  static AllReduceArgs reduce_one(Group& group, std::size_t rank);

  std::mt19937 random_{static_cast<std::mt19937::result_type>(test_seed())};
};

}  // namespace tandem
