// The CUDA sampler against the host device, which is compared with the host twin (tests/gpu/ops):
// equal seeds must give equal tokens, log probabilities and ranks.
#include "gpu/cuda/sampling/sampler.h"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "gpu/host/host_device.h"

namespace tandem::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Case {
  std::int32_t vocab = 0;
  std::vector<float> logits;
  std::vector<SampleRow> rows;
  std::vector<std::int32_t> history;
  std::vector<TokenBias> biases;
  std::vector<std::uint32_t> masks;
};

class SamplerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = Sampler::create();
    ASSERT_TRUE(made.ok()) << made.status().message();
    sampler_ = std::move(made).value();
  }

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool chance(double share) { return std::bernoulli_distribution(share)(random_); }

  template <typename T>
  DeviceMemory upload(const std::vector<T>& values) {
    auto memory = allocate_device_memory(values.size() * sizeof(T) + 16, "test").value();
    EXPECT_EQ(
        cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
        cudaSuccess);
    return memory;
  }

  std::vector<SampledToken> on_cuda(const Case& c) {
    const DeviceMemory logits = upload(c.logits);
    const DeviceMemory rows = upload(c.rows);
    const DeviceMemory history = upload(c.history);
    const DeviceMemory biases = upload(c.biases);
    const DeviceMemory masks = upload(c.masks);
    std::vector<SampledToken> out(c.rows.size());
    for (SampledToken& token : out) token.token = token.num_top = -77;  // must be overwritten
    const DeviceMemory result = upload(out);
    const auto count = static_cast<std::int64_t>(c.rows.size());
    const Status status = sampler_->run({TensorView(logits.get(), DType::f32, {count, c.vocab}),
                                         reinterpret_cast<const SampleRow*>(rows.get()),
                                         reinterpret_cast<const std::int32_t*>(history.get()),
                                         reinterpret_cast<const TokenBias*>(biases.get()),
                                         reinterpret_cast<SampledToken*>(result.get()),
                                         reinterpret_cast<const std::uint32_t*>(masks.get())},
                                        nullptr);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(cudaMemcpy(out.data(), result.get(), out.size() * sizeof(SampledToken),
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    return out;
  }

  std::vector<SampledToken> on_host(const Case& c) {
    std::vector<float> logits = c.logits;
    std::vector<SampledToken> out(c.rows.size());
    const auto count = static_cast<std::int64_t>(c.rows.size());
    host_->sample({TensorView(logits.data(), DType::f32, {count, c.vocab}), c.rows.data(),
                   c.history.data(), c.biases.data(), out.data(), c.masks.data()});
    EXPECT_TRUE(host_->synchronize().ok());
    return out;
  }

  // Logits like a model's: few likely tokens, many unlikely ones, some ties.
  std::vector<float> random_logits(std::int64_t count) {
    const float scale = std::array{0.1F, 1.0F, 3.0F}[static_cast<std::size_t>(pick(0, 2))];
    std::normal_distribution<float> normal(0, scale);
    const bool ties = chance(0.2);
    const bool broken = chance(0.2);
    std::vector<float> logits(static_cast<std::size_t>(count));
    for (float& logit : logits) {
      logit = normal(random_);
      if (ties) logit = std::round(logit * 4) / 4;
      if (broken && chance(0.1)) logit = chance(0.5) ? std::nanf("") : -kInfinity;
    }
    return logits;
  }

  SampleRow random_row(Case& c) {
    SampleRow row;
    row.temperature = chance(0.2) ? 0 : 0.1F * static_cast<float>(pick(1, 20));
    if (chance(0.4))
      row.top_k = static_cast<std::int32_t>(chance(0.8) ? pick(1, 60) : pick(1, 9000));
    if (chance(0.4)) row.top_p = 0.05F * static_cast<float>(pick(0, 20));
    if (chance(0.3)) row.min_p = 0.05F * static_cast<float>(pick(0, 10));
    if (chance(0.4)) {
      row.repetition_penalty = 1 + 0.1F * static_cast<float>(pick(0, 10));
      row.presence_penalty = 0.2F * static_cast<float>(pick(-5, 5));
      row.frequency_penalty = 0.1F * static_cast<float>(pick(-5, 5));
      row.history = static_cast<std::int32_t>(c.history.size());
      row.history_len = static_cast<std::int32_t>(pick(1, 700));
      row.prompt_len = static_cast<std::int32_t>(pick(0, row.history_len));
      for (int i = 0; i < row.history_len; ++i) {
        const std::int64_t bound = chance(0.5) ? std::min(c.vocab - 1, 50) : c.vocab - 1;
        c.history.push_back(static_cast<std::int32_t>(pick(0, bound)));
      }
    }
    if (chance(0.3)) {
      row.bias = static_cast<std::int32_t>(c.biases.size());
      row.num_biases = static_cast<std::int32_t>(pick(1, 600));
      for (int i = 0; i < row.num_biases; ++i) {
        const std::int64_t bound = chance(0.5) ? std::min(c.vocab - 1, 20) : c.vocab - 1;
        const float bias = chance(0.05) ? -kInfinity : 0.37F * static_cast<float>(pick(-6, 6));
        c.biases.push_back({static_cast<std::int32_t>(pick(0, bound)), bias});
      }
    }
    if (chance(0.4)) add_mask(c, row);
    if (chance(0.4)) row.num_logprobs = static_cast<std::int32_t>(pick(0, 20));
    if (chance(0.1)) row.forced_token = static_cast<std::int32_t>(pick(0, c.vocab - 1));
    row.seed = random_();
    row.position = static_cast<std::uint64_t>(pick(0, 100'000));
    return row;
  }

  // Allows few tokens, most of them, or all but a few, as grammars do.
  void add_mask(Case& c, SampleRow& row) {
    const std::int64_t words = mask_words(c.vocab);
    row.mask = static_cast<std::int32_t>(static_cast<std::int64_t>(c.masks.size()) / words);
    const std::int64_t kind = pick(0, 2);
    std::vector<std::uint32_t> mask(static_cast<std::size_t>(words), kind == 0 ? 0 : ~0U);
    for (std::int64_t i = pick(1, 40); i > 0 && kind != 1; --i) {
      const auto token = static_cast<std::uint32_t>(pick(0, c.vocab - 1));
      mask[token / 32] ^= 1U << (token % 32);
    }
    if (kind == 1) {
      for (std::uint32_t& word : mask) word = static_cast<std::uint32_t>(random_());
    }
    c.masks.insert(c.masks.end(), mask.begin(), mask.end());
  }

  Case random_case(std::int32_t vocab, int num_rows) {
    Case c;
    c.vocab = vocab;
    for (int i = 0; i < num_rows; ++i) {
      const std::vector<float> logits = random_logits(vocab);
      c.logits.insert(c.logits.end(), logits.begin(), logits.end());
      c.rows.push_back(random_row(c));
    }
    return c;
  }

  static std::string describe(const SampleRow& row) {
    return fmt::format(
        "T {} k {} p {} min {} rep {} pres {} freq {} history {} biases {} logprobs {} forced {} "
        "mask {}",
        row.temperature, row.top_k, row.top_p, row.min_p, row.repetition_penalty,
        row.presence_penalty, row.frequency_penalty, row.history_len, row.num_biases,
        row.num_logprobs, row.forced_token, row.mask);
  }

  static void expect_same_report(const SampledToken& a, const SampledToken& b) {
    const auto near = [](float x, float y) {
      return x == y || std::abs(x - y) <= 1e-5F * std::max(1.0F, std::abs(y));
    };
    EXPECT_PRED2(near, a.logprob, b.logprob);
    EXPECT_EQ(a.rank, b.rank);
    ASSERT_EQ(a.num_top, b.num_top);
    for (int i = 0; i < SampledToken::kMaxLogprobs; ++i) {
      EXPECT_EQ(a.top_tokens[i], b.top_tokens[i]) << "entry " << i;
      EXPECT_PRED2(near, a.top_logprobs[i], b.top_logprobs[i]) << "entry " << i;
    }
  }

  void compare(const Case& c, int& drawn, int& different) {
    const auto cuda = on_cuda(c);
    const auto host = on_host(c);
    for (std::size_t i = 0; i < c.rows.size(); ++i) {
      SCOPED_TRACE(fmt::format("vocab {} row {}: {}", c.vocab, i, describe(c.rows[i])));
      ASSERT_GE(cuda[i].token, 0);
      ASSERT_LT(cuda[i].token, c.vocab);
      ++drawn;
      if (cuda[i].token == host[i].token) {
        expect_same_report(cuda[i], host[i]);
      } else {
        ++different;
        EXPECT_GT(c.rows[i].temperature, 0) << cuda[i].token << " for " << host[i].token;
      }
    }
  }

  std::mt19937_64 random_{20261120};
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<Device> host_device_ = std::move(make_host_device(HostDeviceOptions{})).value();
  std::unique_ptr<Stream> host_ = std::move(host_device_->create_stream("host")).value();
};

TEST_F(SamplerTest, DrawsWhatTheHostDrawsWhateverIsAskedFor) {
  int drawn = 0;
  int different = 0;
  for (const std::int32_t vocab : {1, 2, 31, 700, 4095, 4096, 4097, 20'001}) {
    for (int round = 0; round < 12; ++round) {
      compare(random_case(vocab, static_cast<int>(pick(1, 24))), drawn, different);
    }
  }
  for (const std::int32_t vocab : {32'000, 128'256, 262'144}) {
    for (int round = 0; round < 3; ++round) compare(random_case(vocab, 12), drawn, different);
  }
  // Rounding may decide where two tokens almost tie, or a cut falls between two.
  EXPECT_LE(different, drawn / 200) << "of " << drawn;
}

TEST_F(SamplerTest, DrawsTheSameAmongManyRowsAsAlone) {
  Case all = random_case(5000, 40);
  const auto together = on_cuda(all);
  EXPECT_EQ(std::memcmp(together.data(), on_cuda(all).data(), 40 * sizeof(SampledToken)), 0);
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    Case one = all;
    one.rows = {all.rows[i]};
    one.logits.assign(all.logits.begin() + static_cast<std::ptrdiff_t>(i * 5000),
                      all.logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * 5000));
    EXPECT_EQ(std::memcmp(&together[i], on_cuda(one).data(), sizeof(SampledToken)), 0)
        << describe(all.rows[i]);
  }
}

TEST_F(SamplerTest, TakesMoreRowsThanItsScratchHolds) {
  int drawn = 0;
  int different = 0;
  Case c = random_case(7, 1);
  c.rows[0] = SampleRow{};
  c.rows[0].temperature = 1;
  const std::vector<float> logits = c.logits;
  for (std::uint64_t i = 1; i < 40'000; ++i) {
    c.rows.push_back(c.rows[0]);
    c.rows.back().position = i;
    c.logits.insert(c.logits.end(), logits.begin(), logits.end());
  }
  compare(c, drawn, different);
  EXPECT_LE(different, drawn / 1000);
}

TEST_F(SamplerTest, ReadsRowsThatLieApart) {
  Case c = random_case(4100, 3);
  const auto dense = on_host(c);
  constexpr std::int64_t kStride = 4111;
  std::vector<float> apart(3 * kStride, std::nanf(""));
  for (std::size_t i = 0; i < 3; ++i) {
    std::copy_n(c.logits.begin() + static_cast<std::ptrdiff_t>(i * 4100), 4100,
                apart.begin() + static_cast<std::ptrdiff_t>(i * kStride));
  }
  const DeviceMemory logits = upload(apart);
  const DeviceMemory rows = upload(c.rows);
  const DeviceMemory history = upload(c.history);
  const DeviceMemory biases = upload(c.biases);
  const DeviceMemory masks = upload(c.masks);
  std::vector<SampledToken> out(3);
  const DeviceMemory result = upload(out);
  TensorView view(logits.get(), DType::f32, {3, 4100});
  view.stride[0] = kStride;
  ASSERT_TRUE(sampler_
                  ->run({view, reinterpret_cast<const SampleRow*>(rows.get()),
                         reinterpret_cast<const std::int32_t*>(history.get()),
                         reinterpret_cast<const TokenBias*>(biases.get()),
                         reinterpret_cast<SampledToken*>(result.get()),
                         reinterpret_cast<const std::uint32_t*>(masks.get())},
                        nullptr)
                  .ok());
  ASSERT_EQ(cudaMemcpy(out.data(), result.get(), sizeof(SampledToken) * 3, cudaMemcpyDeviceToHost),
            cudaSuccess);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(out[i].token, dense[i].token);
}

}  // namespace
}  // namespace tandem::cuda
