#include "tests/gpu/cuda/communicator_group.h"

#include <algorithm>
#include <numeric>

#include "gpu/cuda/cuda_device.h"
#include "gpu/host/host_device.h"
#include "tests/gpu/reference/tolerance.h"

namespace tandem {
namespace {

std::size_t bytes_of(const TensorView& view) {
  return static_cast<std::size_t>(view.num_elements()) * size_of(view.dtype);
}

// The rounding of sums of some hundred numbers below one in another order.
constexpr float kMostRounding = 1e-4F;

// The data of all ranks of a group after all-reduces.
struct Reduced {
  std::vector<std::vector<std::byte>> residuals;  // [ranks]
  std::vector<std::vector<std::byte>> outs;
};

// parts: [steps][ranks]. Runs the steps one after another into one residual, `launches` times. Each
// rank writes its part where the part before the previous one was, without synchronisation.
Reduced reduce(Group& group, const Shape& shape, const std::vector<float>& first,
               const std::vector<std::vector<std::vector<float>>>& parts,
               const std::vector<float>& weight, int launches, bool recorded) {
  const std::size_t steps = parts.size();
  const auto bytes = static_cast<std::size_t>(shape.rows * shape.width) * sizeof(float);
  const auto offset_of = [&](std::size_t i) { return i * ((bytes + 255) / 256 * 256); };
  std::vector<std::int32_t> all_rows(static_cast<std::size_t>(shape.rows));
  std::iota(all_rows.begin(), all_rows.end(), 0);
  std::vector<std::unique_ptr<Graph>> graphs(group.size());
  std::vector<TensorView> residuals(group.size());
  std::vector<TensorView> outs(group.size());
  group.on_every_rank([&](std::size_t rank) {
    std::byte* const base = group.memory[rank].data();
    const auto view = [&](std::size_t i, DType dtype) {
      return TensorView(base + offset_of(i), dtype, {shape.rows, shape.width});
    };
    residuals[rank] = view(steps + 2, DType::f32);
    outs[rank] = view(steps + 3, shape.out);
    const TensorView weights(base + offset_of(steps + 4), DType::f32, {shape.width});
    const TensorView rows(base + offset_of(steps + 5), DType::i32, {shape.rows});
    for (std::size_t step = 0; step < steps; ++step) {
      group.put(rank, view(step, DType::f32), parts[step][rank].data());
    }
    group.put(rank, residuals[rank], first.data());
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
      if (graph) graphs[rank] = std::move(graph).value();
    } else {
      for (int i = 0; i < launches; ++i) enqueue();
    }
  });
  for (int i = 0; recorded && i < launches; ++i) {
    for (std::size_t rank = 0; rank < group.size(); ++rank) {
      if (graphs[rank] != nullptr) group.streams[rank]->launch(*graphs[rank]);
    }
  }
  Reduced result;
  for (std::size_t rank = 0; rank < group.size(); ++rank) {
    result.residuals.push_back(group.get(rank, residuals[rank]));
    result.outs.push_back(group.get(rank, outs[rank]));
  }
  return result;
}

}  // namespace

std::unique_ptr<Device> make_rank(bool on_gpu, std::int32_t rank, const GroupOptions& group) {
  HostDeviceOptions host;
  host.num_threads = 1;
  if (!on_gpu) return make_host_device(host).value();
  CudaDeviceOptions options;
  options.gpu = rank % static_cast<int>(list_cuda_gpus().size());
  options.group = group;
  return std::move(make_cuda_device(options)).value();
}

Group::Group(bool on_gpu, std::int32_t size, const GroupOptions& options) {
  std::vector<Device*> all;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    devices.push_back(make_rank(on_gpu, rank, options));
    all.push_back(devices.back().get());
  }
  ends = std::move(all.front()->connect(all)).value();
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    streams.push_back(std::move(devices[rank]->create_stream("compute")).value());
    memory.push_back(std::move(ends[rank]->allocate(kBytes, "test")).value());
  }
}

void Group::put(std::size_t rank, const TensorView& to, const void* from) {
  streams[rank]->copy_to_device(to.data, from, bytes_of(to));
}

std::vector<std::byte> Group::get(std::size_t rank, const TensorView& from) {
  std::vector<std::byte> bytes(bytes_of(from));
  streams[rank]->copy_to_host(bytes.data(), from.data, bytes.size());
  const Status status = streams[rank]->synchronize();
  EXPECT_TRUE(status.ok()) << status.message();
  return bytes;
}

std::vector<float> CommunicatorTest::numbers(std::int64_t count) {
  std::uniform_real_distribution<float> any(-1, 1);
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& x : result) x = any(random_);
  return result;
}

Shape CommunicatorTest::pick_shape(std::int64_t most_rows) {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
  const std::int64_t widths[] = {pick(1, 700), 8 * pick(1, 200), 4096, 8192, 9000, 8 * 1100};
  return {pick(1, most_rows), widths[pick(0, 5)], pick(0, 3) > 0, kTypes[pick(0, 2)],
          pick(0, 3) > 0};
}

void CommunicatorTest::expect_as_on_the_host(Group& gpus, Group& hosts, const Shape& shape,
                                             int steps, int launches, bool recorded,
                                             Agreement agreement) {
  SCOPED_TRACE(::testing::Message() << gpus.size() << " ranks, " << shape.rows << " x "
                                    << shape.width << (shape.norms ? ", normed to " : ", ")
                                    << to_string(shape.out) << (recorded ? ", recorded" : ""));
  std::vector<std::vector<std::vector<float>>> parts(static_cast<std::size_t>(steps));
  for (auto& step : parts) {
    for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
      step.push_back(numbers(shape.rows * shape.width));
    }
  }
  const std::vector<float> first = numbers(shape.rows * shape.width);
  std::vector<float> weight;
  if (shape.norms) weight = numbers(shape.width);
  const Reduced got = reduce(gpus, shape, first, parts, weight, launches, recorded);
  const Reduced want = reduce(hosts, shape, first, parts, weight, launches, false);
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    if (agreement == Agreement::to_the_bit) {
      ASSERT_EQ(got.residuals[rank], want.residuals[0]) << "rank " << rank;
    } else {
      ASSERT_EQ(got.residuals[rank], got.residuals[0]) << "rank " << rank << " has another sum";
    }
    if (weight.empty()) continue;
    ASSERT_EQ(got.outs[rank], got.outs[0]) << "rank " << rank << " has another norm";
  }
  for (std::int64_t i = 0; i < shape.rows * shape.width; ++i) {
    const float is = reinterpret_cast<const float*>(got.residuals[0].data())[i];
    const float should = reinterpret_cast<const float*>(want.residuals[0].data())[i];
    ASSERT_NEAR(is, should, kMostRounding) << "element " << i;
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

void CommunicatorTest::expect_gathered(Group& group, const std::vector<std::int64_t>& widths,
                                       std::int64_t rows, bool recorded) {
  SCOPED_TRACE(::testing::Message() << widths.size() << " ranks, " << rows << " x " << widths[0]
                                    << " ..." << (recorded ? ", recorded" : ""));
  const std::int64_t width = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
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
    group.used = std::size_t{16} << 20;
    outs.push_back(group.at(rank, DType::f32, rows, width));
  }
  group.used = 0;
  std::vector<std::unique_ptr<Graph>> graphs(widths.size());
  group.on_every_rank([&](std::size_t rank) {
    const TensorView part = group.at(rank, DType::f32, rows, widths[rank]);
    Stream& stream = *group.streams[rank];
    group.put(rank, part, parts[rank].data());
    EXPECT_TRUE(stream.synchronize().ok());
    if (recorded) {
      EXPECT_TRUE(stream.begin_recording().ok());
    }
    stream.all_gather({group.ends[rank].get(), part, outs[rank]});
    if (!recorded) return;
    auto graph = stream.end_recording();
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    if (graph) graphs[rank] = std::move(graph).value();
  });
  for (int launch = 0; recorded && launch < 3; ++launch) {
    for (std::size_t rank = 0; rank < widths.size(); ++rank) {
      if (graphs[rank] != nullptr) group.streams[rank]->launch(*graphs[rank]);
    }
  }
  for (std::size_t rank = 0; rank < widths.size(); ++rank) {
    const std::vector<std::byte> bytes = group.get(rank, outs[rank]);
    const auto* const got = reinterpret_cast<const float*>(bytes.data());
    EXPECT_TRUE(std::equal(want.begin(), want.end(), got)) << "rank " << rank;
  }
}

AllReduceArgs CommunicatorTest::reduce_one(Group& group, std::size_t rank) {
  AllReduceArgs args;
  args.communicator = group.ends[rank].get();
  args.part = group.at(rank, DType::f32, 1, 8);
  args.residual = TensorView(group.memory[rank].data() + 1024, DType::f32, {1, 8});
  args.accumulate = false;
  return args;
}

}  // namespace tandem
