// Ranks on GPUs against ranks on host devices. Of a machine of fewer GPUs than ranks several are on
// one, whose kernels meet all the same.
#include "gpu/cuda/collectives/cuda_communicator.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "gpu/cuda/collectives/collectives.h"
#include "gpu/cuda/cuda_device.h"
#include "gpu/host/host_device.h"
#include "tests/gpu/reference/tolerance.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Device> make_rank(bool on_gpu, std::int32_t rank) {
  HostDeviceOptions host;
  host.num_threads = 1;
  if (!on_gpu) return make_host_device(host).value();
  CudaDeviceOptions options;
  options.gpu = rank % static_cast<int>(list_cuda_gpus().size());
  return std::move(make_cuda_device(options)).value();
}

// A group, with a stream on each device and memory for one operation's operands.
struct Group {
  static constexpr std::size_t kBytes = std::size_t{48} << 20;

  Group(bool on_gpu, std::int32_t size) {
    std::vector<Device*> all;
    for (std::int32_t rank = 0; rank < size; ++rank) {
      devices.push_back(make_rank(on_gpu, rank));
      all.push_back(devices.back().get());
    }
    ends = std::move(all.front()->connect(all)).value();
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      streams.push_back(std::move(devices[rank]->create_stream("compute")).value());
      memory.push_back(std::move(ends[rank]->allocate(kBytes, "test")).value());
    }
  }
  std::size_t size() const { return devices.size(); }

  // What begins at `used` in the rank's memory.
  TensorView at(std::size_t rank, DType dtype, std::int64_t rows, std::int64_t cols) const {
    return {memory[rank].data() + used, dtype, {rows, cols}};
  }
  void move_on(std::size_t bytes) { used += (bytes + 255) / 256 * 256; }

  void put(std::size_t rank, const TensorView& to, const void* from) {
    streams[rank]->copy_to_device(to.data, from, bytes_of(to));
  }
  std::vector<std::byte> get(std::size_t rank, const TensorView& from) {
    std::vector<std::byte> bytes(bytes_of(from));
    streams[rank]->copy_to_host(bytes.data(), from.data, bytes.size());
    const Status status = streams[rank]->synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
    return bytes;
  }
  static std::size_t bytes_of(const TensorView& view) {
    return static_cast<std::size_t>(view.num_elements()) * size_of(view.dtype);
  }

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

// What all ranks of a group have after all-reduces.
struct Reduced {
  std::vector<std::vector<std::byte>> residuals;  // [ranks]
  std::vector<std::vector<std::byte>> outs;
};

class CudaCommunicatorTest : public ::testing::Test {
 protected:
  std::vector<float> numbers(std::int64_t count) {
    std::uniform_real_distribution<float> any(-1, 1);
    std::vector<float> result(static_cast<std::size_t>(count));
    for (float& x : result) x = any(random_);
    return result;
  }
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  Shape pick_shape(std::int64_t most_rows) {
    constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::i32};
    const std::int64_t widths[] = {pick(1, 700), 8 * pick(1, 200), 4096, 8192, 9000, 8 * 1100};
    const DType weight = kTypes[pick(0, 3)];
    const bool narrow = weight != DType::i32 && pick(0, 1) == 1;
    return {pick(1, most_rows), widths[pick(0, 5)], weight, narrow ? weight : DType::f32,
            pick(0, 3) > 0};
  }

  // parts: [steps][ranks]. The steps one behind the other into one residual, `launches` times over;
  // each rank writes its part where the one before the last was, with nobody told.
  static Reduced reduce(Group& group, const Shape& shape, const std::vector<float>& first,
                        const std::vector<std::vector<std::vector<float>>>& parts,
                        const std::vector<std::byte>& weight, int launches, bool recorded) {
    const std::size_t steps = parts.size();
    const auto bytes = static_cast<std::size_t>(shape.rows * shape.width) * sizeof(float);
    const auto offset_of = [&](std::size_t i) { return i * ((bytes + 255) / 256 * 256); };
    std::vector<std::int32_t> all_rows(static_cast<std::size_t>(shape.rows));
    std::iota(all_rows.begin(), all_rows.end(), 0);
    std::vector<std::unique_ptr<Graph>> graphs;
    std::vector<TensorView> residuals;
    std::vector<TensorView> outs;
    for (std::size_t rank = 0; rank < group.size(); ++rank) {
      std::byte* const base = group.memory[rank].data();
      const auto view = [&](std::size_t i, DType dtype) {
        return TensorView(base + offset_of(i), dtype, {shape.rows, shape.width});
      };
      residuals.push_back(view(steps + 2, DType::f32));
      outs.push_back(view(steps + 3, shape.out));
      const TensorView weights(base + offset_of(steps + 4), shape.weight, {shape.width});
      const TensorView rows(base + offset_of(steps + 5), DType::i32, {shape.rows});
      for (std::size_t step = 0; step < steps; ++step) {
        group.put(rank, view(step, DType::f32), parts[step][rank].data());
      }
      group.put(rank, residuals.back(), first.data());
      if (!weight.empty()) group.put(rank, weights, weight.data());
      group.put(rank, rows, all_rows.data());
      EXPECT_TRUE(group.streams[rank]->synchronize().ok());
      Stream& stream = *group.streams[rank];
      const auto enqueue = [&] {
        for (std::size_t step = 0; step < steps; ++step) {
          AllReduceArgs args;
          args.communicator = group.ends[rank].get();
          args.part = view(steps + step % 2, DType::f32);
          args.residual = residuals[rank];
          args.accumulate = shape.accumulate;
          if (!weight.empty()) {
            args.weight = weights;
            args.eps = 1e-5F;
            args.out = outs[rank];
          }
          stream.gather_rows(
              {view(step, DType::f32), static_cast<const std::int32_t*>(rows.data), args.part});
          stream.all_reduce(args);
        }
      };
      if (recorded) {
        EXPECT_TRUE(stream.begin_recording().ok());
        enqueue();
        auto graph = stream.end_recording();
        EXPECT_TRUE(graph.ok()) << graph.status().message();
        graphs.push_back(std::move(graph).value());
      } else {
        for (int i = 0; i < launches; ++i) enqueue();
      }
    }
    for (int i = 0; recorded && i < launches; ++i) {
      for (std::size_t rank = 0; rank < group.size(); ++rank) {
        group.streams[rank]->launch(*graphs[rank]);
      }
    }
    Reduced result;
    for (std::size_t rank = 0; rank < group.size(); ++rank) {
      result.residuals.push_back(group.get(rank, residuals[rank]));
      result.outs.push_back(group.get(rank, outs[rank]));
    }
    return result;
  }

  void expect_as_on_the_host(Group& gpus, Group& hosts, const Shape& shape, int steps, int launches,
                             bool recorded) {
    SCOPED_TRACE(::testing::Message() << gpus.size() << " ranks, " << shape.rows << " x "
                                      << shape.width << ", " << to_string(shape.weight) << " to "
                                      << to_string(shape.out) << (recorded ? ", recorded" : ""));
    std::vector<std::vector<std::vector<float>>> parts(static_cast<std::size_t>(steps));
    for (auto& step : parts) {
      for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
        step.push_back(numbers(shape.rows * shape.width));
      }
    }
    const std::vector<float> first = numbers(shape.rows * shape.width);
    std::vector<std::byte> weight;
    if (shape.weight != DType::i32) {
      const std::vector<float> values = numbers(shape.width);
      weight.resize(values.size() * size_of(shape.weight));
      convert(DType::f32, values.data(), shape.weight, weight.data(), shape.width);
    }
    const Reduced got = reduce(gpus, shape, first, parts, weight, launches, recorded);
    const Reduced want = reduce(hosts, shape, first, parts, weight, launches, false);
    for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
      ASSERT_EQ(got.residuals[rank], want.residuals[0]) << "rank " << rank;
      if (weight.empty()) continue;
      ASSERT_EQ(got.outs[rank], got.outs[0]) << "rank " << rank << " has another norm";
    }
    if (weight.empty()) return;
    const Tolerance tolerance = tolerance_of(shape.out);
    const std::size_t size = size_of(shape.out);
    for (std::int64_t i = 0; i < shape.rows * shape.width; ++i) {
      float is = 0;
      float should = 0;
      const auto at = static_cast<std::size_t>(i) * size;
      convert(shape.out, got.outs[0].data() + at, DType::f32, &is, 1);
      convert(shape.out, want.outs[0].data() + at, DType::f32, &should, 1);
      ASSERT_TRUE(tolerance.accepts(is, should)) << "element " << i << ": " << is << ", " << should;
    }
  }

  static AllReduceArgs reduce_one(Group& group, std::size_t rank) {
    AllReduceArgs args;
    args.communicator = group.ends[rank].get();
    args.part = group.at(rank, DType::f32, 1, 8);
    args.residual = TensorView(group.memory[rank].data() + 1024, DType::f32, {1, 8});
    args.accumulate = false;
    return args;
  }

  std::mt19937 random_{static_cast<std::mt19937::result_type>(test_seed())};
};

TEST_F(CudaCommunicatorTest, AddsUpTheRanksPartsAsHostDevicesDo) {
  for (const std::int32_t size : {1, 2, 3, 4}) {
    Group gpus(true, size);
    Group hosts(false, size);
    for (int round = 0; round < 24; ++round) {
      const Shape shape = pick_shape(30);
      expect_as_on_the_host(gpus, hosts, shape, /*steps=*/1, /*launches=*/1, false);
    }
  }
}

// More rows than blocks, and more bytes than pay one shot.
TEST_F(CudaCommunicatorTest, AddsUpPromptsInTwoShots) {
  for (const std::int32_t size : {3, 4}) {
    Group gpus(true, size);
    Group hosts(false, size);
    for (const Shape& shape : {Shape{500, 1024, DType::bf16, DType::bf16, true},
                               Shape{401, 1001, DType::f32, DType::f32, true},
                               Shape{65, 8192, DType::f16, DType::f16, false},
                               Shape{3, 200'000, DType::i32, DType::f32, true}}) {
      expect_as_on_the_host(gpus, hosts, shape, 1, 1, false);
    }
  }
}

// Every launch of a recording has meetings of its own, and operations of several sizes follow each
// other: buffers are shown again while the slowest rank may still be behind.
TEST_F(CudaCommunicatorTest, MeetsInRecordingsThatAreLaunchedAgainAndAgain) {
  for (const std::int32_t size : {2, 4}) {
    Group gpus(true, size);
    Group hosts(false, size);
    for (int round = 0; round < 6; ++round) {
      Shape shape = pick_shape(20);
      shape.width = std::min<std::int64_t>(shape.width, 2048);
      expect_as_on_the_host(gpus, hosts, shape, /*steps=*/4, /*launches=*/20, round % 2 == 0);
    }
  }
}

TEST_F(CudaCommunicatorTest, GathersPartsOfDifferentWidths) {
  for (const std::vector<std::int64_t>& widths :
       {std::vector<std::int64_t>{7, 7, 3}, {16000, 16000}, {128, 64, 4, 1}, {5000, 4999}}) {
    Group group(true, static_cast<std::int32_t>(widths.size()));
    std::int64_t width = 0;
    for (const std::int64_t share : widths) width += share;
    for (const std::int64_t rows : {1, 5, 33}) {
      std::vector<std::vector<float>> parts;
      std::vector<float> want(static_cast<std::size_t>(rows * width));
      std::int64_t column = 0;
      for (const std::int64_t share : widths) {
        parts.push_back(numbers(rows * share));
        for (std::int64_t t = 0; t < rows; ++t) {
          std::copy_n(parts.back().begin() + t * share, share, want.begin() + t * width + column);
        }
        column += share;
      }
      std::vector<TensorView> outs;
      for (std::size_t rank = 0; rank < widths.size(); ++rank) {
        group.used = 0;
        const TensorView part = group.at(rank, DType::f32, rows, widths[rank]);
        group.move_on(std::size_t{8} << 20);
        outs.push_back(group.at(rank, DType::f32, rows, width));
        group.put(rank, part, parts[rank].data());
        ASSERT_TRUE(group.streams[rank]->synchronize().ok());
        group.streams[rank]->all_gather({group.ends[rank].get(), part, outs[rank]});
      }
      for (std::size_t rank = 0; rank < widths.size(); ++rank) {
        const std::vector<std::byte> bytes = group.get(rank, outs[rank]);
        const auto* const got = reinterpret_cast<const float*>(bytes.data());
        ASSERT_TRUE(std::equal(want.begin(), want.end(), got)) << "rank " << rank;
      }
    }
  }
}

TEST_F(CudaCommunicatorTest, ARankThatLeavesLetsGoOfThoseThatWaitAndAllMeetAgainAfterwards) {
  Group group(true, 2);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i <= round; ++i) group.streams[0]->all_reduce(reduce_one(group, 0));
    group.ends[1]->leave("its step");
    const Status status = group.streams[0]->synchronize();
    EXPECT_EQ(status.code(), StatusCode::cancelled);
    EXPECT_THAT(status.message(), HasSubstr("rank 1 failed before its step"));
    // What lies behind it is void, too, and told anew.
    group.streams[0]->all_reduce(reduce_one(group, 0));
    EXPECT_EQ(group.streams[0]->synchronize().code(), StatusCode::cancelled);
    for (const auto& end : group.ends) end->reset();

    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::vector<float> ones(8, static_cast<float>(rank + 1));
      group.put(rank, reduce_one(group, rank).part, ones.data());
      ASSERT_TRUE(group.streams[rank]->synchronize().ok());
    }
    for (std::size_t rank = 0; rank < 2; ++rank) {
      group.streams[rank]->all_reduce(reduce_one(group, rank));
    }
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::vector<std::byte> sum = group.get(rank, reduce_one(group, rank).residual);
      EXPECT_EQ(reinterpret_cast<const float*>(sum.data())[7], 3.0F);
    }
  }
}

TEST_F(CudaCommunicatorTest, AnOperationThatCannotBeEnqueuedFailsTheOthersAtOnce) {
  Group group(true, 2);
  group.streams[0]->all_reduce(reduce_one(group, 0));
  const TensorView impossible(group.memory[1].data(), DType::f32, {1, std::int64_t{1} << 34});
  group.streams[1]->gather_rows(
      {impossible, reinterpret_cast<const std::int32_t*>(group.memory[1].data()), impossible});
  group.streams[1]->all_reduce(reduce_one(group, 1));
  EXPECT_THAT(group.streams[1]->synchronize().message(), HasSubstr("gather_rows"));
  EXPECT_THAT(group.streams[0]->synchronize().message(), HasSubstr("rank 1 failed before"));
}

// With less patience than a group has.
TEST_F(CudaCommunicatorTest, ARankThatNeverComesIsNotWaitedForForEver) {
  const auto gpu = make_rank(true, 0);
  const std::vector<int> both = {0, 0};
  const auto group = std::move(cuda::CudaGroup::create(both, *gpu)).value();
  const Buffer memory = std::move(gpu->allocate(4096, "test")).value();
  AllReduceArgs args;
  args.part = TensorView(memory.data(), DType::f32, {1, 8});
  args.residual = TensorView(memory.data() + 1024, DType::f32, {1, 8});
  cuda::GroupEnd end = group->end(0);
  end.patience_ns = 1'000'000;
  ASSERT_TRUE(cuda::launch_all_reduce(args, end, cudaStreamPerThread).ok());
  ASSERT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  EXPECT_TRUE(group->has_failed(0));
  EXPECT_FALSE(group->has_failed(1));
  const Status status = group->take_failure(0);
  EXPECT_EQ(status.code(), StatusCode::cancelled);
  EXPECT_THAT(status.message(), HasSubstr("group of 2 GPUs: rank 0 waited in vain"));
  EXPECT_TRUE(group->take_failure(0).ok()) << "told twice";
}

TEST_F(CudaCommunicatorTest, RefusesGroupsThatAreNone) {
  const auto gpu = make_rank(true, 0);
  const auto host = make_rank(false, 0);
  const std::vector<Device*> many(9, gpu.get());
  EXPECT_THAT(gpu->connect(many).status().message(), HasSubstr("1 to 8 devices, not 9"));
  const std::vector<Device*> mixed = {gpu.get(), host.get()};
  EXPECT_THAT(gpu->connect(mixed).status().message(), HasSubstr("cannot be one group"));
}

}  // namespace
}  // namespace tandem
