// These tests compare what adapters have in place of the base's with the reference: LoRA of tokens,
// whole weights, rows of some tokens, biases, and weights of norms.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
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
    if (shift > 0) scatter_weights(1, shift, weights_);
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
    if (shift > 0) scatter_weights(1, shift, weights_);
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

  // Runs `args` on the twin and on the device for modules whose outputs are neighbouring columns of
  // `out`, `widths` wide, with the base's biases, of which some are null.
  void check_with_bias(LoraArgs args, const TestTensor& x,
                       const std::vector<const TestTensor*>& biases,
                       const std::vector<std::int64_t>& widths, const TestTensor& out,
                       const std::string& what) {
    const auto row_array = array(rows_);
    const auto segment_array = array(segments_);
    const auto matrices = array(weights_.device_table);
    args.num_modules = static_cast<std::int32_t>(widths.size());
    args.slot_stride = args.num_modules;
    args.num_rows = 12;
    args.num_segments = static_cast<std::int32_t>(segments_.size());
    args.max_rank = weights_.max_rank;
    args.max_count = 9;
    for (const bool device : {false, true}) {
      args.x = device ? x.on_device() : x.host();
      args.table = device ? matrices.on_device() : weights_.host_table.data();
      args.pages = device ? weights_.device_pages : weights_.host_pages;
      args.rows = device ? row_array.on_device() : row_array.host();
      args.segments = device ? segment_array.on_device() : segment_array.host();
      std::int64_t first = 0;
      for (std::size_t m = 0; m < widths.size(); ++m) {
        args.out[m] = (device ? out.on_device() : out.host()).slice_cols(first, widths[m]);
        if (biases[m] != nullptr) {
          args.base_bias[m] = device ? biases[m]->on_device() : biases[m]->host();
        }
        first += widths[m];
      }
      device ? stream_->lora(args) : reference::lora(args);
    }
    expect_same(out, what);
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

TEST_F(LoraOuter, ReplacesRowsOfAProjectionAndAddsItsBias) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t shift : {0, 12}) {
      make(dtype, 0, 131, {67, 0, 67}, shift);
      const TestTensor x = tensor(dtype, {kRows, 67});
      const TestTensor bias = tensor(dtype, {131});
      const TestTensor out = tensor(dtype, {kRows, 140});
      LoraArgs args;
      args.part = LoraPart::replace;
      check_with_bias(args, x, {&bias}, {131}, out, fmt::format("{} {}", to_string(dtype), shift));
    }
  }
}

TEST_F(LoraOuter, ReplacesBiases) {
  for (const DType dtype : kDtypes) {
    for (const DType out_dtype : {dtype, DType::f32}) {
      for (const std::int32_t shift : {0, 12}) {
        const std::vector<std::int64_t> lengths = {130, 3000, 7};
        weights_ = Weights();
        make_vectors(dtype, lengths,
                     {{true, true, false}, {false, true, true}, {false, false, false}}, weights_);
        if (shift > 0) scatter_weights(lengths.size(), shift, weights_);
        const TestTensor x = tensor(dtype, {kRows, 4});
        const TestTensor first = tensor(dtype, {130});
        const TestTensor last = tensor(dtype, {7});
        const TestTensor out = tensor(out_dtype, {kRows, 3137});
        LoraArgs args;
        args.part = LoraPart::biases;
        check_with_bias(args, x, {&first, nullptr, &last}, lengths, out,
                        fmt::format("{} {}", to_string(dtype), shift));
      }
    }
  }
}

TEST_F(LoraOuter, NormsRowsByWeightsOfTheirAdapters) {
  const std::vector<std::int32_t> slots = {2, -1, 0, 1, -1, 2, 2, 1};
  const auto rows = static_cast<std::int64_t>(slots.size());
  struct Case {
    DType dtype;
    std::int64_t heads;
    std::int64_t width;
    bool centred;
  };
  for (const Case& c : {Case{DType::f32, 1, 3000, false}, Case{DType::f32, 1, 67, true},
                        Case{DType::bf16, 3, 24, false}, Case{DType::f16, 1, 640, false},
                        Case{DType::f32, 2, 128, false}}) {
    for (const std::int32_t shift : {0, 12}) {
      weights_ = Weights();
      // The norm is the second of two modules.
      make_vectors(c.dtype, {5, c.width}, {{true, true}, {true, false}, {false, true}}, weights_);
      std::vector<TensorView> own;  // before they are moved into chunks
      for (std::size_t s = 0; s < 3; ++s) own.push_back(weights_.tensors[4 * s + 3].host());
      if (shift > 0) scatter_weights(2, shift, weights_);
      const auto matrices = array(weights_.device_table);
      const auto slot_array = array(slots);
      const TestTensor weight = tensor(DType::f32, {c.width});
      const TestTensor x = tensor(c.dtype, {rows, c.heads * c.width}, 2);  // normed in place
      const auto view = [&](const TensorView& v) {
        return c.heads > 1 ? v.split_cols(c.heads) : v;
      };
      RmsNormArgs args{view(x.on_device()), weight.on_device(), 1e-5F, view(x.on_device()),
                       c.centred};
      args.own = {matrices.on_device() + 1, 2, weights_.device_pages, slot_array.on_device()};
      stream_->rms_norm(args);
      for (std::int64_t t = 0; t < rows; ++t) {
        const std::int32_t slot = slots[static_cast<std::size_t>(t)];
        const bool has_own = slot == 0 || slot == 2;
        const TensorView row = view(x.host().slice_rows(t, 1));
        const TensorView of_row =
            has_own ? TensorView(own[static_cast<std::size_t>(slot)].data, DType::f32, {c.width})
                    : weight.host();
        reference::rms_norm({row, of_row, 1e-5F, row, c.centred});
      }
      expect_same(x, fmt::format("{} {} {}", to_string(c.dtype), c.width, shift));
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
