#include "gpu/host/context/host_communicator.h"

#include <gmock/gmock.h>

#include <cmath>
#include <latch>
#include <random>
#include <stdexcept>
#include <vector>

#include "gpu/host/host_device.h"
#include "gpu/host/host_stream.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using testing::HasSubstr;

// `size` host devices with one thread each, in one group, with a stream on each.
struct Ranks {
  explicit Ranks(std::int32_t size) {
    HostDeviceOptions options;
    options.num_threads = 1;
    std::vector<Device*> all;
    for (std::int32_t rank = 0; rank < size; ++rank) {
      devices.push_back(make_host_device(options).value());
      all.push_back(devices.back().get());
    }
    ends = all.front()->connect(all).value();
    for (const auto& device : devices) streams.push_back(device->create_stream("compute").value());
  }
  host::HostStream& stream(std::size_t rank) {
    return dynamic_cast<host::HostStream&>(*streams[rank]);
  }
  std::size_t size() const { return devices.size(); }

  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Communicator>> ends;
  std::vector<std::unique_ptr<Stream>> streams;
};

class HostCommunicatorTest : public ::testing::Test {
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

  std::mt19937 random_{static_cast<std::mt19937::result_type>(test_seed())};
};

TEST_F(HostCommunicatorTest, AddsUpTheRanksPartsAndNormsTheSum) {
  for (const std::int32_t size : {1, 2, 3, 8}) {
    Ranks ranks(size);
    for (int round = 0; round < 8; ++round) {
      const std::int64_t rows = pick(0, 40);
      const std::int64_t width = pick(1, 700);
      const bool accumulate = pick(0, 1) == 1;
      const bool norms = pick(0, 1) == 1;
      SCOPED_TRACE(::testing::Message() << size << " ranks, " << rows << " x " << width);
      std::vector<std::vector<float>> parts;
      std::vector<std::vector<float>> residuals(ranks.size(), numbers(rows * width));
      const std::vector<float> before = residuals[0];
      std::vector<std::vector<float>> outs(ranks.size(), std::vector<float>(before.size()));
      std::vector<float> weight = numbers(width);
      for (std::size_t r = 0; r < ranks.size(); ++r) parts.push_back(numbers(rows * width));
      const auto view = [&](std::vector<float>& data) {
        return TensorView(data.data(), DType::f32, {rows, width});
      };
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        AllReduceArgs args{
            ranks.ends[r].get(), view(parts[r]), view(residuals[r]), accumulate, {}, 1e-5F, {}};
        if (norms) {
          args.weight = TensorView(weight.data(), DType::f32, {width});
          args.out = view(outs[r]);
        }
        ranks.streams[r]->all_reduce(args);
      }
      for (const auto& stream : ranks.streams) ASSERT_TRUE(stream->synchronize().ok());
      for (std::size_t i = 0; i < before.size(); ++i) {
        double sum = accumulate ? before[i] : 0;
        for (const auto& part : parts) sum += part[i];
        ASSERT_NEAR(residuals[0][i], sum, 1e-5) << "element " << i;
      }
      for (std::size_t r = 1; r < ranks.size(); ++r) {
        EXPECT_EQ(residuals[r], residuals[0]) << "rank " << r << " has another sum";
        EXPECT_EQ(outs[r], outs[0]);
      }
      for (std::int64_t t = 0; norms && t < rows; ++t) {
        const float* const row = residuals[0].data() + t * width;
        double squares = 0;
        for (std::int64_t i = 0; i < width; ++i) squares += double{row[i]} * row[i];
        const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
        for (std::int64_t i = 0; i < width; ++i) {
          const double want = row[i] * scale * weight[static_cast<std::size_t>(i)];
          ASSERT_NEAR(outs[0][static_cast<std::size_t>(t * width + i)], want, 1e-4);
        }
      }
    }
  }
}

TEST_F(HostCommunicatorTest, GathersPartsOfDifferentWidths) {
  Ranks ranks(3);
  const std::vector<std::int64_t> widths = {7, 7, 3};
  const std::int64_t rows = 5;
  std::vector<std::vector<float>> parts;
  std::vector<std::vector<float>> outs(3, std::vector<float>(static_cast<std::size_t>(rows) * 17));
  for (const std::int64_t width : widths) parts.push_back(numbers(rows * width));
  for (std::size_t r = 0; r < 3; ++r) {
    ranks.streams[r]->all_gather({ranks.ends[r].get(),
                                  TensorView(parts[r].data(), DType::f32, {rows, widths[r]}),
                                  TensorView(outs[r].data(), DType::f32, {rows, 17})});
  }
  for (const auto& stream : ranks.streams) ASSERT_TRUE(stream->synchronize().ok());
  for (std::size_t t = 0; t < static_cast<std::size_t>(rows); ++t) {
    std::vector<float> want;
    for (std::size_t r = 0; r < 3; ++r) {
      const auto width = static_cast<std::size_t>(widths[r]);
      want.insert(want.end(), parts[r].begin() + static_cast<std::ptrdiff_t>(t * width),
                  parts[r].begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
    }
    for (const auto& out : outs) {
      EXPECT_EQ(std::vector<float>(out.begin() + static_cast<std::ptrdiff_t>(t * 17),
                                   out.begin() + static_cast<std::ptrdiff_t>(t * 17 + 17)),
                want);
    }
  }
}

TEST_F(HostCommunicatorTest, ARankThatFailsFailsTheOthersAtOnceAndAllMeetAgainAfterwards) {
  Ranks ranks(3);
  float part[3] = {1, 2, 4};
  float sum[3] = {};
  const auto reduce = [&] {
    for (std::size_t r = 0; r < 3; ++r) {
      ranks.streams[r]->all_reduce({ranks.ends[r].get(),
                                    TensorView(&part[r], DType::f32, {1, 1}),
                                    TensorView(&sum[r], DType::f32, {1, 1}),
                                    false,
                                    {},
                                    0,
                                    {}});
    }
  };
  for (int round = 0; round < 3; ++round) {
    ranks.stream(1).run("gemm", [] { throw std::runtime_error("out of cores"); });
    reduce();
    reduce();  // operations behind it fail too
    EXPECT_THAT(ranks.streams[1]->synchronize().message(), HasSubstr("out of cores"));
    for (const std::size_t r : {0U, 2U}) {
      const Status status = ranks.streams[r]->synchronize();
      EXPECT_EQ(status.code(), StatusCode::cancelled);
      EXPECT_THAT(status.message(), HasSubstr("rank 1 failed before all_reduce"));
    }
    for (const auto& end : ranks.ends) end->reset();
    reduce();
    for (const auto& stream : ranks.streams) EXPECT_TRUE(stream->synchronize().ok());
    EXPECT_THAT(sum, ::testing::Each(7.0F));
  }
}

TEST_F(HostCommunicatorTest, ARankThatLeavesLetsGoOfThoseThatWait) {
  Ranks ranks(2);
  float part = 1;
  float sum = 0;
  ranks.streams[0]->all_reduce({ranks.ends[0].get(),
                                TensorView(&part, DType::f32, {1, 1}),
                                TensorView(&sum, DType::f32, {1, 1}),
                                false,
                                {},
                                0,
                                {}});
  ranks.ends[1]->leave("its step");
  EXPECT_THAT(ranks.streams[0]->synchronize().message(),
              HasSubstr("rank 1 failed before its step"));
}

TEST_F(HostCommunicatorTest, RefusesGroupsThatAreNone) {
  const auto device = make_host_device({}).value();
  const std::vector<Device*> many(9, device.get());
  EXPECT_THAT(device->connect(many).status().message(), HasSubstr("1 to 8 devices, not 9"));
}

}  // namespace
}  // namespace tandem
