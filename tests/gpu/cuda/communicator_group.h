// A group of ranks on GPUs or on host devices, and the comparison of their sums.
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

// If there are fewer GPUs than ranks, some ranks share a GPU.
std::unique_ptr<Device> make_rank(bool on_gpu, std::int32_t rank, const GroupOptions& group = {});

// A group, with a stream on each device and memory for one operation's operands.
struct Group {
  static constexpr std::size_t kBytes = std::size_t{48} << 20;

  Group(bool on_gpu, std::int32_t size, const GroupOptions& options = {});
  std::size_t size() const { return devices.size(); }

  // Runs body(rank) on one thread per rank, as the engine does when it enqueues.
  template <typename Body>
  void on_every_rank(const Body& body) {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < size(); ++rank)
      threads.emplace_back([&, rank] { body(rank); });
  }

  // A view of the rank's memory that begins at `used`.
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
  bool norms;
  DType out;
  bool accumulate;
};

// How closely sums must agree with those of host devices.
enum class Agreement {
  to_the_bit,  // added up in rank order
  rounded,     // added up in another order, the same on all ranks
};

class CommunicatorTest : public ::testing::Test {
 protected:
  std::vector<float> numbers(std::int64_t count);
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  Shape pick_shape(std::int64_t most_rows);

  // Runs `steps` all-reduces one after another into one residual, `launches` times; on the GPUs
  // they can be recorded.
  void expect_as_on_the_host(Group& gpus, Group& hosts, const Shape& shape, int steps, int launches,
                             bool recorded, Agreement agreement = Agreement::to_the_bit);
  // Gathers parts of these widths, and expects the concatenated parts on all ranks.
  void expect_gathered(Group& group, const std::vector<std::int64_t>& widths, std::int64_t rows,
                       bool recorded);

  static AllReduceArgs reduce_one(Group& group, std::size_t rank);

  std::mt19937 random_{static_cast<std::mt19937::result_type>(test_seed())};
};

}  // namespace tandem
