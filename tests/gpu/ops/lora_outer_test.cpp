// These tests compare what adapters change at the embedding and the head with the reference: LoRA
// of tokens, whole weights, and rows of some tokens.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "tests/gpu/ops/lora_weights.h"

namespace tandem {
namespace {

constexpr std::int32_t kRows = 14;
constexpr std::int32_t kSlots = 3;

class LoraOuter : public LoraTest {
 protected:
  // Rows of three adapters, in segments of 1, 0, 9 and 2 rows, in any order; two rows have none.
  LoraOuter() {
    rows_.resize(kRows);
    std::iota(rows_.begin(), rows_.end(), 0);
    std::shuffle(rows_.begin(), rows_.end(), random_);
    segments_ = {{0, 0, 1}, {1, 1, 0}, {2, 1, 9}, {1, 10, 2}};
  }

  // `ranks`: of each slot; 0: it does not have the module. `shift`: as in LoraWeights.
  void make(DType dtype, std::int64_t in, std::int64_t out, std::vector<std::int32_t> ranks,
            std::int32_t shift) {
    weights_ = Weights();
    std::vector<std::vector<std::int32_t>> of_slots;
    for (const std::int32_t rank : ranks) of_slots.push_back({rank});
    make_weights(dtype, in, {out}, of_slots, weights_);
    if (shift > 0) scatter_weights(dtype, 1, shift, weights_);
  }
  std::vector<std::int32_t> any_ids(std::int64_t vocab) {
    std::vector<std::int32_t> ids(kRows);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(pick(0, vocab - 1));
    return ids;
  }

  // Rows of the second and the third slot for `count` tokens of `vocab` each.
  void make_tokens(DType dtype, std::int64_t width, std::int64_t vocab, std::size_t count,
                   std::int32_t shift) {
    weights_ = Weights();
    std::vector<std::int32_t> all(static_cast<std::size_t>(vocab));
    std::iota(all.begin(), all.end(), 0);
    std::vector<std::vector<std::int32_t>> tokens(1);
    for (int slot = 1; slot < kSlots; ++slot) {
      std::vector<std::int32_t>& some = tokens.emplace_back();
      std::ranges::sample(all, std::back_inserter(some), static_cast<std::ptrdiff_t>(count),
                          random_);
    }
    make_token_rows(dtype, width, tokens, weights_);
    if (shift > 0) scatter_weights(dtype, 1, shift, weights_);
  }

  // Runs `args` on the twin and on the device, and compares `out`. x without data stays so.
  void check(LoraArgs args, const TestTensor* x, const TestTensor& out,
             const std::vector<std::int32_t>& ids, const TestTensor* v, const std::string& what) {
    const auto row_array = array(rows_);
    const auto segment_array = array(segments_);
    const auto matrices = array(weights_.device_table);
    const auto id_array = array(ids);
    args.num_modules = 1;
    args.slot_stride = 1;
    args.num_rows = 12;
    args.num_segments = static_cast<std::int32_t>(segments_.size());
    args.max_rank = weights_.max_rank;
    args.max_count = 9;
    const auto run = [&](bool device) {
      if (x != nullptr) args.x = device ? x->on_device() : x->host();
      args.table = device ? matrices.on_device() : weights_.host_table.data();
      args.pages = device ? weights_.device_pages : weights_.host_pages;
      args.rows = device ? row_array.on_device() : row_array.host();
      args.segments = device ? segment_array.on_device() : segment_array.host();
      args.out[0] = device ? out.on_device() : out.host();
      if (v != nullptr) args.v = device ? v->on_device() : v->host();
      if (x == nullptr) args.ids = device ? id_array.on_device() : id_array.host();
      device ? stream_->lora(args) : reference::lora(args);
    };
    run(false);
    run(true);
    expect_same(v != nullptr ? *v : out, what);
  }

  std::vector<std::int32_t> rows_;
  std::vector<LoraSegment> segments_;
  Weights weights_;
};

TEST_F(LoraOuter, ReplacesRowsByTheirOwnWholeProducts) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t shift : {0, 12}) {
      for (const std::int32_t in : {8, 67, 200}) {
        make(dtype, 0, 301, {in, 0, in}, shift);
        const TestTensor x = tensor(dtype, {kRows, in});
        const TestTensor out = tensor(DType::f32, {kRows, 301});
        LoraArgs args;
        args.part = LoraPart::replace;
        check(args, &x, out, {}, nullptr, fmt::format("{} {} {}", to_string(dtype), shift, in));
      }
    }
  }
}

TEST_F(LoraOuter, ReplacesTheEmbeddingOfTokens) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t shift : {0, 12}) {
      constexpr std::int64_t kVocab = 90;
      make(dtype, 0, kVocab, {72, 72, 0}, shift);
      const TestTensor out = tensor(DType::f32, {kRows, 72});
      LoraArgs args;
      args.part = LoraPart::replace;
      args.x = {nullptr, dtype, {kRows, kVocab}};
      args.id_scale = 1.5F;
      check(args, nullptr, out, any_ids(2 * kVocab), nullptr, std::string(to_string(dtype)));
    }
  }
}

TEST_F(LoraOuter, ReplacesTheLogitsOfTokens) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t shift : {0, 12}) {
      for (const std::int32_t in : {8, 67, 200}) {
        make_tokens(dtype, in, 301, 40, shift);
        const TestTensor x = tensor(dtype, {kRows, in});
        const TestTensor out = tensor(DType::f32, {kRows, 301});
        LoraArgs args;
        args.part = LoraPart::tokens;
        check(args, &x, out, {}, nullptr, fmt::format("{} {} {}", to_string(dtype), shift, in));
      }
    }
  }
}

TEST_F(LoraOuter, ReplacesTheEmbeddingOfSomeTokens) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t shift : {0, 12}) {
      constexpr std::int64_t kVocab = 30;
      make_tokens(dtype, 67, kVocab, 15, shift);
      const TestTensor out = tensor(DType::f32, {kRows, 67});
      LoraArgs args;
      args.part = LoraPart::tokens;
      args.x = {nullptr, dtype, {kRows, kVocab}};
      args.id_scale = 1.5F;
      check(args, nullptr, out, any_ids(kVocab), nullptr, std::string(to_string(dtype)));
    }
  }
}

TEST_F(LoraOuter, LooksUpTheColumnsOfTokens) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t shift : {0, 12}) {
      constexpr std::int64_t kVocab = 90;
      make(dtype, kVocab, 24, {5, 64, 0}, shift);
      TestTensor v = tensor(DType::f32, {kRows, lora_share(64, 1)});
      const TestTensor out = tensor(DType::f32, {kRows, 24});
      LoraArgs args;
      args.part = LoraPart::shrink;
      args.x = {nullptr, dtype, {kRows, kVocab}};
      args.id_scale = 0.5F;
      check(args, nullptr, out, any_ids(kVocab), &v, std::string(to_string(dtype)));
    }
  }
}

}  // namespace
}  // namespace tandem
