#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Tokens that are counted together: how often they were drawn, and the expected number.
struct Cell {
  int count = 0;
  double want = 0;
};

double divergence(double count, double want) {
  return count > 0 ? count * std::log(count / want) : 0;
}

// Expects that counts are a draw from the wanted distribution. Both bounds hold for any number of
// draws, however few a cell has, and correct counts violate them at most once in 1e9 runs: the
// tests' seeds are new in every run.
void expect_drawn(const std::vector<Cell>& cells, int draws, const std::string& what) {
  constexpr double kMostLog = -20.7;  // the logarithm of 1e-9
  double all = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto [count, want] = cells[i];
    all += divergence(count, want);
    // Chernoff's bound for a binomial's two tails, for every cell.
    const double others = std::max(draws - want, 1e-9);
    const double one = divergence(count, want) + divergence(draws - count, others);
    EXPECT_GT(std::log(2.0 * static_cast<double>(cells.size())) - one, kMostLog)
        << what << ": " << count << " of cell " << i << ", " << want << " are wanted";
  }
  // The bound on the relative entropy t of all counts (R. Agrawal, "Finite-Sample Concentration of
  // the Multinomial in Relative Entropy", 2020): P(>= t) <= exp(-t) (e t / f)^f for t > f.
  const double freedom = std::max(static_cast<double>(cells.size()) - 1, 1.0);
  if (all <= freedom) return;
  EXPECT_GT(freedom * (1 + std::log(all / freedom)) - all, kMostLog)
      << what << ": relative entropy " << all << " of " << cells.size() << " cells";
}

class Sample : public OpsTest {
 protected:
  // One row of `logits` for every entry of `rows`.
  std::vector<SampledToken> run(const std::vector<float>& logits,
                                const std::vector<SampleRow>& rows,
                                const std::vector<std::int32_t>& history = {},
                                const std::vector<TokenBias>& biases = {},
                                const std::vector<std::uint32_t>& masks = {}) {
    std::vector<float> all;
    for (std::size_t i = 0; i < rows.size(); ++i)
      all.insert(all.end(), logits.begin(), logits.end());
    return run_rows(all, rows, history, biases, masks);
  }
  std::vector<SampledToken> run_rows(const std::vector<float>& logits,
                                     const std::vector<SampleRow>& rows,
                                     const std::vector<std::int32_t>& history = {},
                                     const std::vector<TokenBias>& biases = {},
                                     const std::vector<std::uint32_t>& masks = {}) {
    const auto count = static_cast<std::int64_t>(rows.size());
    const auto device_logits = array(logits);
    const auto device_rows = array(rows);
    const auto device_history = array(history);
    const auto device_biases = array(biases);
    const auto device_masks = array(masks);
    const auto out = array(std::vector<SampledToken>(rows.size()));
    stream_->sample({TensorView(device_logits.on_device(), DType::f32,
                                {count, static_cast<std::int64_t>(logits.size()) / count}),
                     device_rows.on_device(), device_history.on_device(), device_biases.on_device(),
                     out.on_device(), device_masks.on_device()});
    return out.download(*stream_);
  }

  std::vector<float> random_logits(std::size_t vocab, float scale) {
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> logits(vocab);
    for (float& logit : logits) logit = normal(random_);
    return logits;
  }

  // The simplest implementation: -infinity for each token whose bit is not set.
  static std::vector<float> masked(std::vector<float> logits, const SampleRow& row,
                                   const std::vector<std::uint32_t>& masks) {
    if (row.mask < 0) return logits;
    const std::size_t words = (logits.size() + 31) / 32;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const std::uint32_t word = masks[static_cast<std::size_t>(row.mask) * words + i / 32];
      if ((word & (std::uint32_t{1} << (i % 32))) == 0) logits[i] = -kInfinity;
    }
    return logits;
  }

  // Draws many times and compares the counts with the host twin's probabilities.
  void check_distribution(const std::string& what, const std::vector<float>& logits, SampleRow row,
                          const std::vector<std::int32_t>& history = {},
                          const std::vector<TokenBias>& biases = {},
                          const std::vector<std::uint32_t>& masks = {}) {
    constexpr int kDraws = 4000;
    const int vocab = static_cast<int>(logits.size());
    std::vector<double> expected(logits.size());
    const std::vector<float> left = masked(logits, row, masks);
    reference::probabilities(left.data(), vocab, row, history.data(), biases.data(),
                             expected.data());
    std::vector<SampleRow> rows;
    for (int i = 0; i < kDraws; ++i) {
      row.seed = 1234;
      row.position = static_cast<std::uint64_t>(i);
      rows.push_back(row);
    }
    std::vector<int> counts(logits.size(), 0);
    for (const SampledToken& token : run(logits, rows, history, biases, masks)) {
      ASSERT_GE(token.token, 0);
      ASSERT_LT(token.token, vocab);
      ++counts[static_cast<std::size_t>(token.token)];
    }
    std::vector<Cell> cells;
    Cell rest;  // all tokens that are drawn too rarely to be judged alone
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (expected[i] == 0) {
        EXPECT_EQ(counts[i], 0) << what << ": token " << i << " was cut";
        continue;
      }
      const Cell cell{counts[i], expected[i] * kDraws};
      if (cell.want >= 5) {
        cells.push_back(cell);
      } else {
        rest.count += cell.count;
        rest.want += cell.want;
      }
    }
    if (rest.want > 0) cells.push_back(rest);
    expect_drawn(cells, kDraws, what);
  }
};

TEST_F(Sample, IsGreedyAtTemperatureZeroAndTakesTheLowerIdOfEqualLogits) {
  const auto out = run({1, 7, 3, 7, -2}, {SampleRow{}});
  EXPECT_EQ(out[0].token, 1);
}

TEST_F(Sample, DrawsFromTheSoftmaxAtTheTemperature) {
  const auto logits = random_logits(50, 2);
  for (const float temperature : {0.3F, 1.0F, 2.5F}) {
    SampleRow row;
    row.temperature = temperature;
    check_distribution(fmt::format("temperature {}", temperature), logits, row);
  }
}

TEST_F(Sample, CutsByTopKTopPAndMinPAlone) {
  const auto logits = random_logits(200, 1.5F);
  for (const std::int32_t top_k : {1, 2, 7, 150, 500}) {
    SampleRow row;
    row.temperature = 1.2F;
    row.top_k = top_k;
    check_distribution(fmt::format("top_k {}", top_k), logits, row);
  }
  for (const float top_p : {0.0F, 0.1F, 0.5F, 0.9F, 0.999F}) {
    SampleRow row;
    row.temperature = 0.9F;
    row.top_p = top_p;
    check_distribution(fmt::format("top_p {}", top_p), logits, row);
  }
  for (const float min_p : {0.01F, 0.2F, 1.0F}) {
    SampleRow row;
    row.temperature = 1.5F;
    row.min_p = min_p;
    check_distribution(fmt::format("min_p {}", min_p), logits, row);
  }
}

TEST_F(Sample, CutsByTopKThenTopPThenMinPTogether) {
  for (int round = 0; round < 20; ++round) {
    SampleRow row;
    row.temperature = 0.5F + 0.1F * static_cast<float>(pick(0, 10));
    row.top_k = static_cast<std::int32_t>(pick(0, 40));
    row.top_p = 0.1F * static_cast<float>(pick(1, 10));
    row.min_p = 0.02F * static_cast<float>(pick(0, 10));
    const auto vocab = static_cast<std::size_t>(pick(1, 700));
    check_distribution(fmt::format("k {} p {} min {} T {} vocab {}", row.top_k, row.top_p,
                                   row.min_p, row.temperature, vocab),
                       random_logits(vocab, 2), row);
  }
}

TEST_F(Sample, OfEqualLogitsCutsTheHigherIds) {
  const std::vector<float> logits(100, 1.0F);
  SampleRow row;
  row.temperature = 1;
  row.top_k = 3;
  check_distribution("ties at top_k", logits, row);
  row.top_k = 0;
  row.top_p = 0.095F;
  check_distribution("ties at top_p", logits, row);
}

TEST_F(Sample, AppliesBiasesAndPenaltiesBeforeTheTemperature) {
  const auto logits = random_logits(30, 1);
  SampleRow row;
  row.temperature = 0.8F;
  row.repetition_penalty = 1.7F;
  row.presence_penalty = 0.4F;
  row.frequency_penalty = -0.3F;
  row.history = 2;
  row.prompt_len = 4;
  row.history_len = 9;
  row.bias = 1;
  row.num_biases = 2;
  const std::vector<std::int32_t> history{29, 29, 1, 2, 3, 1, 1, 5, 5, 5, 7, 29};
  const std::vector<TokenBias> biases{{0, 100}, {4, 2.5F}, {6, -kInfinity}};
  check_distribution("penalties", logits, row, history, biases);
  row.temperature = 0;
  std::vector<double> expected(logits.size());
  reference::probabilities(logits.data(), 30, row, history.data(), biases.data(), expected.data());
  const auto out = run(logits, {row, row}, history, biases);
  EXPECT_EQ(expected[static_cast<std::size_t>(out[0].token)], 1);
  EXPECT_EQ(out[1].token, out[0].token) << "one row's penalties must not leak into the next";
}

TEST_F(Sample, DependsOnSeedAndPositionAloneNotOnTheBatch) {
  const auto logits = random_logits(1000, 1);
  std::vector<SampleRow> rows;
  for (int i = 0; i < 40; ++i) {
    SampleRow row;
    row.temperature = 1;
    row.top_p = i % 2 == 0 ? 0.95F : 1.0F;
    row.seed = static_cast<std::uint64_t>(i / 4);
    row.position = static_cast<std::uint64_t>(i % 4);
    rows.push_back(row);
  }
  const auto together = run(logits, rows);
  std::vector<SampleRow> reversed(rows.rbegin(), rows.rend());
  const auto backwards = run(logits, reversed);
  int different = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(together[i].token, run(logits, {rows[i]})[0].token);
    EXPECT_EQ(together[i].token, backwards[rows.size() - 1 - i].token);
    if (together[i].token != together[0].token) ++different;
  }
  EXPECT_GT(different, 20);
}

TEST_F(Sample, ReportsLogProbabilitiesOfTheRawLogits) {
  const std::vector<float> logits{0, std::log(2.0F), std::log(5.0F), std::log(2.0F)};
  SampleRow row;
  row.num_logprobs = 3;
  row.num_biases = 1;
  const std::vector<TokenBias> biases{{3, 50}};
  const SampledToken out = run(logits, {row}, {}, biases)[0];
  EXPECT_EQ(out.token, 3);
  EXPECT_NEAR(out.logprob, std::log(0.2), 1e-6);
  EXPECT_EQ(out.rank, 3) << "token 1 is as likely and has the lower id";
  ASSERT_EQ(out.num_top, 3);
  EXPECT_EQ(out.top_tokens[0], 2);
  EXPECT_EQ(out.top_tokens[1], 1);
  EXPECT_EQ(out.top_tokens[2], 3);
  EXPECT_NEAR(out.top_logprobs[0], std::log(0.5), 1e-6);
  EXPECT_NEAR(out.top_logprobs[1], std::log(0.2), 1e-6);
}

TEST_F(Sample, ReportsTheBestOfALargeVocabularyInOrder) {
  const auto logits = random_logits(50'000, 3);
  SampleRow row;
  row.num_logprobs = 100;  // more than there are places
  const SampledToken out = run(logits, {row})[0];
  ASSERT_EQ(out.num_top, SampledToken::kMaxLogprobs);
  std::vector<std::int32_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  for (int i = 0; i < out.num_top; ++i)
    EXPECT_EQ(out.top_tokens[i], order[static_cast<std::size_t>(i)]);
  EXPECT_EQ(out.token, order[0]);
  EXPECT_EQ(out.rank, 1);
}

TEST_F(Sample, ReportsAForcedTokenWithoutDrawing) {
  const std::vector<float> logits{0, 0, std::log(2.0F)};
  SampleRow row;
  row.temperature = 1;
  row.forced_token = 1;
  row.num_logprobs = 0;
  const SampledToken out = run(logits, {row})[0];
  EXPECT_EQ(out.token, 1);
  EXPECT_NEAR(out.logprob, std::log(0.25), 1e-6);
  EXPECT_EQ(out.rank, 3);
  EXPECT_EQ(out.num_top, 0);
}

TEST_F(Sample, DrawsWhatTheMaskLeavesWhateverElseIsAskedFor) {
  for (const std::size_t vocab :
       {std::size_t{5}, std::size_t{32}, std::size_t{33}, std::size_t{700}}) {
    std::vector<std::uint32_t> masks(3 * ((vocab + 31) / 32));
    for (std::uint32_t& word : masks)
      word = static_cast<std::uint32_t>(pick(0, 0xFFFFFFFFLL) & pick(0, 0xFFFFFFFFLL));
    for (const std::size_t first : {0, 1, 2}) masks[first * ((vocab + 31) / 32)] |= 2;
    for (int round = 0; round < 4; ++round) {
      SampleRow row;
      row.mask = static_cast<std::int32_t>(pick(0, 2));
      row.temperature = 0.9F;
      if (round == 1) row.top_k = 4;
      if (round == 2) row.top_p = 0.8F;
      if (round == 3) {
        row.min_p = 0.05F;
        row.history_len = row.prompt_len = 3;
        row.repetition_penalty = 1.5F;
        row.num_biases = 1;
      }
      check_distribution(fmt::format("vocab {} round {}", vocab, round), random_logits(vocab, 2),
                         row, {0, 1, 4}, {{3, 2.0F}}, masks);
    }
  }
}

TEST_F(Sample, TakesTheBestOfWhatTheMaskLeavesAndReportsOnlyThat) {
  const std::vector<float> logits{5, std::log(2.0F), 0, 7, std::log(5.0F), std::nanf("")};
  SampleRow row;
  row.mask = 1;
  row.num_logprobs = 20;
  SampleRow free;
  free.num_logprobs = 0;
  SampleRow forced = row;
  forced.forced_token = 3;
  const std::vector<std::uint32_t> masks{0, 0b110110};
  const auto out = run(logits, {row, free, forced}, {}, {}, masks);
  EXPECT_EQ(out[0].token, 4);
  EXPECT_EQ(out[0].rank, 1);
  EXPECT_NEAR(out[0].logprob, std::log(5.0 / 8), 1e-6);
  ASSERT_EQ(out[0].num_top, 3) << "three may be drawn";
  EXPECT_EQ(out[0].top_tokens[1], 1);
  EXPECT_EQ(out[0].top_tokens[2], 2);
  EXPECT_EQ(out[1].token, 3);
  EXPECT_EQ(out[2].token, 3);
  EXPECT_EQ(out[2].rank, 1) << "a forced token's row has no mask";
}

TEST_F(Sample, SurvivesLogitsThatAreNotNumbers) {
  const float nan = std::nanf("");
  SampleRow drawn;
  drawn.temperature = 1;
  drawn.top_k = 3;
  drawn.top_p = 0.9F;
  drawn.num_logprobs = 2;
  for (const SampleRow& row : {SampleRow{}, drawn}) {
    EXPECT_EQ(run({nan, nan, nan}, {row})[0].token, 0);
    EXPECT_EQ(run({-kInfinity, -kInfinity}, {row})[0].token, 0);
    EXPECT_EQ(run({nan, 1, nan}, {row})[0].token, 1);
    EXPECT_EQ(run({1, kInfinity, 2, kInfinity}, {row})[0].token, 1);
    EXPECT_EQ(run({-kInfinity, -3, nan}, {row})[0].token, 1);
  }
}

TEST_F(Sample, StaysGreedyAtAVanishingTemperature) {
  SampleRow row;
  row.temperature = 1e-40F;
  EXPECT_EQ(run({1, 5, 4.9999F}, {row})[0].token, 1);
  row.temperature = 1e-6F;
  EXPECT_EQ(run({1, 5, 4.99F}, {row})[0].token, 1);
}

}  // namespace
}  // namespace tandem
