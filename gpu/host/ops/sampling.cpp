// Chooses one token per row. The row's weights exp((logit - max) / temperature) are cut after the
// last allowed token in the order of ranking.h, then one is drawn by random numbers of (seed,
// position, token). Nothing is sorted.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/check.h"
#include "gpu/host/kernels/kernels.h"
#include "gpu/host/kernels/ranking.h"
#include "gpu/host/ops/operations.h"
#include "gpu/philox.h"

namespace tandem::host {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

class RowSampler {
 public:
  RowSampler(const SampleArgs& args, const SampleRow& row, std::span<float> logits,
             WorkerScratch& scratch)
      : args_(args), row_(row), raw_(logits), scratch_(scratch) {}

  SampledToken run() {
    SampledToken out;
    // NaN, the sign of a broken model or adapter, must neither win nor spoil the sums.
    for (float& logit : raw_) logit = std::isnan(logit) ? kLowest : logit;
    if (row_.mask >= 0 && row_.forced_token < 0) forbid();
    out.token = row_.forced_token >= 0 ? row_.forced_token : choose();
    TANDEM_CHECK(out.token < static_cast<std::int64_t>(raw_.size()), "token {}", out.token);
    if (row_.num_logprobs >= 0 || row_.forced_token >= 0) report(out);
    return out;
  }

 private:
  void forbid() {
    const auto size = static_cast<std::int64_t>(raw_.size());
    const std::uint32_t* mask = args_.masks + row_.mask * mask_words(size);
    for (std::size_t i = 0; i < raw_.size(); ++i) {
      if ((mask[i / 32] >> (i % 32) & 1U) == 0) raw_[i] = kLowest;
      if (raw_[i] > kLowest) ++num_allowed_;
    }
  }

  std::int32_t choose() {
    const bool penalised =
        row_.history_len > 0 &&
        (row_.repetition_penalty != 1 || row_.presence_penalty != 0 || row_.frequency_penalty != 0);
    std::span<float> work = raw_;
    if (penalised || row_.num_biases > 0 || row_.temperature > 0) {
      work = {scratch_.operand.get<float>(raw_.size()), raw_.size()};
      std::copy(raw_.begin(), raw_.end(), work.begin());
    }
    for (std::int32_t i = 0; i < row_.num_biases; ++i) {
      const TokenBias& bias = args_.biases[row_.bias + i];
      if (bias.token >= 0 && bias.token < static_cast<std::int64_t>(work.size())) {
        work[static_cast<std::size_t>(bias.token)] += bias.bias;
      }
    }
    if (penalised) penalise(work);
    const Ranked best = best_of(work);
    if (row_.temperature <= 0 || !std::isfinite(best.value)) return best.id;
    return draw(work, best);
  }

  void penalise(std::span<float> logits) {
    std::vector<std::int32_t>& counts = scratch_.counts;
    if (counts.size() < logits.size()) counts.resize(logits.size(), 0);
    const std::span history(args_.history + row_.history,
                            static_cast<std::size_t>(row_.history_len));
    // Each token's count in the output plus one; zero means not seen yet.
    for (std::size_t i = 0; i < history.size(); ++i) {
      const auto token = static_cast<std::size_t>(history[i]);
      TANDEM_CHECK(token < logits.size(), "token {} in the history", history[i]);
      if (counts[token] == 0) counts[token] = 1;
      if (static_cast<std::int64_t>(i) >= row_.prompt_len) ++counts[token];
    }
    for (const std::int32_t token : history) {
      std::int32_t& count = counts[static_cast<std::size_t>(token)];
      if (count == 0) continue;  // handled at its first occurrence
      float& logit = logits[static_cast<std::size_t>(token)];
      logit = logit > 0 ? logit / row_.repetition_penalty : logit * row_.repetition_penalty;
      if (count > 1) {
        logit -= row_.presence_penalty + row_.frequency_penalty * static_cast<float>(count - 1);
      }
      count = 0;
    }
  }

  // `weights` holds the logits; `best` is the best one.
  std::int32_t draw(std::span<float> weights, Ranked best) {
    const auto size = static_cast<std::int64_t>(weights.size());
    const float inverse = 1.0F / row_.temperature;
    if (!std::isfinite(inverse)) return best.id;
    for (float& logit : weights) logit = (logit - best.value) * inverse;
    exp_row(weights.data(), size, 0);
    Ranked last{kLowest, 0};
    const auto cut_at = [&](const Ranked& cut) {
      if (better(cut, last)) last = cut;
    };
    if (row_.top_k > 0 && row_.top_k < size) {
      best_k(weights, row_.top_k, candidates_, work_);
      cut_at(candidates_.back());
    }
    if (row_.top_p < 1) {
      keep(weights, last, 0);  // top_p is a fraction of what top_k left
      const double mass = std::max(0.0, static_cast<double>(row_.top_p)) * mass_of(weights);
      cut_at(prefix_with_mass(weights, mass, candidates_));
    }
    keep(weights, last, row_.min_p);  // the best token's weight is 1
    return race(weights, best.id);
  }

  // Zeroes the weights behind `last` in the order or below `floor`, without branches in the loops.
  static void keep(std::span<float> weights, const Ranked& last, float floor) {
    const auto keep_range = [](std::span<float> range, float least, float above) {
      for (float& weight : range) weight = weight >= least && weight > above ? weight : 0.0F;
    };
    const auto split = std::min(weights.size(), static_cast<std::size_t>(last.id) + 1);
    const float least = std::max(floor, last.value);
    keep_range(weights.first(split), least, kLowest);
    keep_range(weights.subspan(split), least, last.value);
  }

  // Runs the race of race_rate(). Returns `best` if no weight is left.
  std::int32_t race(std::span<const float> weights, std::int32_t best) const {
    const DrawKey key(row_.seed, row_.position);
    double fastest = 0;  // the best rate weight / E so far
    std::int32_t chosen = best;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double weight = weights[i];
      const double u = key.uniform(static_cast<std::uint32_t>(i));
      // E = -log(u) is at least 1 - u, so most logarithms can be skipped.
      if (weight <= fastest * (1 - u)) continue;
      const double rate = race_rate(weight, u);
      if (rate <= fastest) continue;
      fastest = rate;
      chosen = static_cast<std::int32_t>(i);
    }
    return chosen;
  }

  static double mass_of(std::span<const float> weights) {
    double lanes[4] = {};  // several sums, to hide the latency of an addition
    std::size_t i = 0;
    for (; i + 4 <= weights.size(); i += 4) {
      for (std::size_t lane = 0; lane < 4; ++lane) lanes[lane] += weights[i + lane];
    }
    for (; i < weights.size(); ++i) lanes[0] += weights[i];
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  }

  // Log probability and rank under the model's own logits.
  void report(SampledToken& out) {
    const auto size = static_cast<std::int64_t>(raw_.size());
    const float max = max_row(raw_.data(), size);
    double log_sum = max;
    if (std::isfinite(max)) {
      double sum = 0;
      constexpr std::size_t kBlock = 1024;
      float* block = scratch_.operand.get<float>(kBlock);
      for (std::size_t begin = 0; begin < raw_.size(); begin += kBlock) {
        const std::size_t count = std::min(kBlock, raw_.size() - begin);
        std::copy_n(raw_.data() + begin, count, block);
        sum += exp_row(block, static_cast<std::int64_t>(count), max);
      }
      log_sum += std::log(sum);
    }
    const auto logprob = [&](float logit) {
      const double value = static_cast<double>(logit) - log_sum;
      return std::isnan(value) ? kLowest : static_cast<float>(value);
    };
    const Ranked chosen{raw_[static_cast<std::size_t>(out.token)], out.token};
    out.logprob = logprob(chosen.value);
    if (row_.num_logprobs < 0) return;
    const auto id = static_cast<std::size_t>(out.token);
    out.rank = 1;
    for (const float logit : raw_.first(id)) out.rank += logit >= chosen.value ? 1 : 0;
    for (const float logit : raw_.subspan(id)) out.rank += logit > chosen.value ? 1 : 0;
    auto most = std::min<std::int64_t>(row_.num_logprobs, SampledToken::kMaxLogprobs);
    if (row_.mask >= 0 && row_.forced_token < 0) most = std::min(most, num_allowed_);
    best_k(raw_, static_cast<std::int32_t>(most), candidates_, work_);
    for (const Ranked& candidate : candidates_) {
      out.top_tokens[out.num_top] = candidate.id;
      out.top_logprobs[out.num_top] = logprob(candidate.value);
      ++out.num_top;
    }
  }

  const SampleArgs& args_;
  const SampleRow& row_;
  std::span<float> raw_;
  WorkerScratch& scratch_;
  std::int64_t num_allowed_ = 0;  // set if there is a mask
  std::vector<Ranked> candidates_;
  std::vector<float> work_;
};

}  // namespace

void sample(OpContext& context, const SampleArgs& args) {
  const std::int64_t vocab = args.logits.cols();
  if (args.logits.rows() == 0 || vocab == 0) return;
  context.for_each(
      args.logits.rows(), args.logits.num_elements() * 4, [&](std::int64_t s, int worker) {
        auto* logits = reinterpret_cast<float*>(args.logits.row_bytes(s));
        args.out[s] = RowSampler(args, args.rows[s], {logits, static_cast<std::size_t>(vocab)},
                                 context.workers[static_cast<std::size_t>(worker)])
                          .run();
      });
}

}  // namespace tandem::host
