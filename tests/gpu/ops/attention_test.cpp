#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {
namespace {

struct Shape {
  DType dtype;
  std::int64_t kv_heads;
  std::int64_t group;
  std::int64_t d;
  std::int32_t page_tokens;
  struct Sequence {
    std::int32_t rows;
    std::int32_t kv_len;
  };
  std::vector<Sequence> sequences;
};

class PagedAttention : public OpsTest {
 protected:
  // Attends to a random cache, in pages dealt at random.
  void check(const Shape& shape) {
    std::int64_t rows = 0;
    std::vector<AttentionSequence> sequences;
    std::vector<std::int32_t> page_ids;
    for (const auto& sequence : shape.sequences) {
      sequences.push_back({static_cast<std::int32_t>(rows), sequence.rows, sequence.kv_len,
                           static_cast<std::int32_t>(page_ids.size())});
      rows += sequence.rows;
      const std::int32_t pages = (sequence.kv_len + shape.page_tokens - 1) / shape.page_tokens;
      for (std::int32_t p = 0; p < pages; ++p) {
        page_ids.push_back(static_cast<std::int32_t>(page_ids.size()));
      }
    }
    std::shuffle(page_ids.begin(), page_ids.end(), random_);
    const auto num_pages = static_cast<std::int64_t>(page_ids.size());
    const std::int64_t page_elements = 2 * shape.kv_heads * shape.page_tokens * shape.d;
    // The gap between the pages, as other layers' pages would make it.
    const TestTensor cache = tensor(shape.dtype, {num_pages, page_elements + 24}, 2);
    const std::int64_t heads = shape.kv_heads * shape.group;
    const TestTensor q = tensor(shape.dtype, {rows, heads * shape.d}, 2, shape.d);
    const TestTensor out = tensor(shape.dtype, {rows, heads * shape.d}, 1, 2);
    const auto sequence_array = array(sequences);
    const auto page_array = array(page_ids);
    AttentionArgs args{q.host().split_cols(heads),
                       {cache.host().data, cache.host().stride[0], shape.page_tokens},
                       static_cast<std::int32_t>(shape.kv_heads),
                       sequence_array.host(),
                       page_array.host(),
                       static_cast<std::int32_t>(sequences.size()),
                       0,
                       0,
                       1 / std::sqrt(static_cast<float>(shape.d)),
                       out.host().split_cols(heads)};
    for (const AttentionSequence& sequence : sequences) {
      args.max_rows = std::max(args.max_rows, sequence.num_rows);
      args.max_kv_len = std::max(args.max_kv_len, sequence.kv_len);
    }
    reference::attention(args);
    args.q = q.on_device().split_cols(heads);
    args.out = out.on_device().split_cols(heads);
    args.cache.base = cache.on_device().data;
    args.sequences = sequence_array.on_device();
    args.page_ids = page_array.on_device();
    AttentionPlan plan;
    plan.heads = static_cast<std::int32_t>(heads);
    plan.kv_heads = static_cast<std::int32_t>(shape.kv_heads);
    plan.head_dim = static_cast<std::int32_t>(shape.d);
    plan.page_tokens = shape.page_tokens;
    plan.dtype = shape.dtype;
    plan.sequences = sequences.data();
    plan.num_sequences = args.num_sequences;
    plan.num_rows = static_cast<std::int32_t>(rows);
    stream_->plan_attention(plan);
    stream_->attention(args);
    expect_same(out, fmt::format("{} kv heads {} group {} d {} page {} sequences {}",
                                 to_string(shape.dtype), shape.kv_heads, shape.group, shape.d,
                                 shape.page_tokens, sequences.size()));
  }
};

TEST_F(PagedAttention, DecodesOneRowOfEverySequence) {
  for (const DType dtype : kDtypes) check({dtype, 2, 4, 64, 16, {{1, 1}, {1, 17}, {1, 40}}});
}

TEST_F(PagedAttention, IsCausalWithinAPrefillChunk) {
  for (const DType dtype : kDtypes) check({dtype, 2, 3, 32, 16, {{45, 45}, {7, 100}}});
}

TEST_F(PagedAttention, SplitsTheKeysOfALongDecode) {
  for (const DType dtype : kDtypes) check({dtype, 1, 5, 24, 16, {{1, 1500}}});
}

TEST_F(PagedAttention, MatchesTheTwinForRandomMixes) {
  for (int round = 0; round < 25; ++round) {
    Shape shape{kDtypes[round % 3],
                pick(1, 4),
                pick(1, 7),
                2 * pick(1, 40),
                static_cast<std::int32_t>(pick(1, 40)),
                {}};
    const std::int64_t count = pick(1, 5);
    for (std::int64_t s = 0; s < count; ++s) {
      const auto rows = static_cast<std::int32_t>(pick(0, 1) == 0 ? 1 : pick(1, 30));
      shape.sequences.push_back({rows, static_cast<std::int32_t>(rows + pick(0, 60))});
    }
    check(shape);
  }
}

TEST_F(PagedAttention, TakesHeadsOf256) {
  check({DType::bf16, 1, 2, 256, 16, {{20, 33}, {1, 50}}});
}

}  // namespace
}  // namespace tandem
