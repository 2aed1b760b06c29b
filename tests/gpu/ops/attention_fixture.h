// Shapes of attention over paged caches, and a fixture that compares the device's with the
// reference.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/ops/ops_fixture.h"
#include "tests/support/sanitized.h"

namespace tandem {

struct AttentionShape {
  DType dtype;
  std::int64_t kv_heads;
  std::int64_t group;
  std::int64_t d;
  std::int32_t page_tokens;
  struct Sequence {
    std::int32_t rows;
    std::int32_t kv_len;  // 0: padding
  };
  std::vector<Sequence> sequences;
  std::int64_t out_gap = 2;  // elements between the rows of `out`
  std::int32_t window = 0;
  float softcap = 0;
  bool sinks = false;
};

// The products of the scores of every row with every key.
inline std::int64_t products_of(const AttentionShape& shape) {
  std::int64_t scores = 0;
  for (const AttentionShape::Sequence& sequence : shape.sequences) {
    scores += std::int64_t{sequence.rows} * sequence.kv_len;
  }
  return scores * shape.kv_heads * shape.group * shape.d;
}

inline std::string to_string(const AttentionShape& shape) {
  return fmt::format("{} kv heads {} group {} d {} page {} sequences {}", to_string(shape.dtype),
                     shape.kv_heads, shape.group, shape.d, shape.page_tokens,
                     shape.sequences.size());
}

// Values lie in [-2, 2]. Tensor cores take the softmax weights in the compute dtype, so a result
// may be off by half an ulp of 1 times the largest value, however small the result itself is.
inline Tolerance tolerance_of_attention(DType dtype) {
  Tolerance tolerance = tolerance_of(dtype);
  if (dtype == DType::bf16) tolerance.absolute = 2 * 0x1p-9;
  if (dtype == DType::f16) tolerance.absolute = 2 * 0x1p-12;
  return tolerance;
}

// A step's description of its sequences, with pages taken at random from the cache.
struct AttentionTables {
  std::vector<AttentionSequence> sequences;
  std::vector<std::int32_t> page_ids;
  std::int32_t rows = 0;
  std::int32_t max_rows = 0;
  std::int32_t max_kv_len = 0;

  AttentionTables(const AttentionShape& shape, std::vector<std::int32_t> pages) {
    std::size_t used = 0;
    for (const AttentionShape::Sequence& sequence : shape.sequences) {
      // Half of the sequences declare no settled keys.
      const std::int32_t settled =
          sequences.size() % 2 == 0 ? std::max(sequence.kv_len - sequence.rows, 0) : 0;
      sequences.push_back({rows, sequence.rows, sequence.kv_len,
                           static_cast<std::int32_t>(page_ids.size()), settled});
      rows += sequence.rows;
      max_rows = std::max(max_rows, sequence.rows);
      max_kv_len = std::max(max_kv_len, sequence.kv_len);
      const std::int32_t count = (sequence.kv_len + shape.page_tokens - 1) / shape.page_tokens;
      for (std::int32_t p = 0; p < count; ++p) page_ids.push_back(pages.at(used++));
    }
  }

  static std::int64_t pages_of(const AttentionShape& shape) {
    std::int64_t pages = 0;
    for (const AttentionShape::Sequence& sequence : shape.sequences) {
      pages += (sequence.kv_len + shape.page_tokens - 1) / shape.page_tokens;
    }
    return pages;
  }
};

class PagedAttention : public OpsTest {
 protected:
  std::vector<std::int32_t> deal_pages(std::int64_t count) {
    std::vector<std::int32_t> pages(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<std::int32_t>(i);
    std::shuffle(pages.begin(), pages.end(), random_);
    return pages;
  }

  TestTensor cache_of(const AttentionShape& shape, std::int64_t pages) {
    const std::int64_t page_elements = 2 * shape.kv_heads * shape.page_tokens * shape.d;
    // The gap between the pages, as other layers' pages would make it.
    return tensor(shape.dtype, {pages, page_elements + 24}, 2);
  }

  static AttentionPlan plan_of(const AttentionShape& shape, const AttentionTables& tables) {
    AttentionPlan plan;
    plan.heads = static_cast<std::int32_t>(shape.kv_heads * shape.group);
    plan.kv_heads = static_cast<std::int32_t>(shape.kv_heads);
    plan.head_dim = static_cast<std::int32_t>(shape.d);
    plan.page_tokens = shape.page_tokens;
    plan.dtype = shape.dtype;
    plan.sequences = tables.sequences.data();
    plan.num_sequences = static_cast<std::int32_t>(tables.sequences.size());
    plan.num_rows = tables.rows;
    plan.bounded = shape.window != 0 || shape.softcap != 0 || shape.sinks;
    plan.sinks = shape.sinks;
    return plan;
  }

  static AttentionArgs args_of(const AttentionShape& shape, const AttentionTables& tables,
                               const TensorView& q, const TensorView& cache,
                               const TensorView& out) {
    const std::int64_t heads = shape.kv_heads * shape.group;
    AttentionArgs args{};
    args.q = q.split_cols(heads);
    args.cache = {cache.data, cache.stride[0], shape.page_tokens};
    args.kv_heads = static_cast<std::int32_t>(shape.kv_heads);
    args.sequences = tables.sequences.data();
    args.page_ids = tables.page_ids.data();
    args.num_sequences = static_cast<std::int32_t>(tables.sequences.size());
    args.max_rows = tables.max_rows;
    args.max_kv_len = tables.max_kv_len;
    args.scale = 1 / std::sqrt(static_cast<float>(shape.d));
    args.out = out.split_cols(heads);
    args.window = shape.window;
    args.softcap = shape.softcap;
    return args;
  }

  // Computes attention over a random cache. Sanitizers slow the arithmetic alone, so under them
  // only small shapes do, which take the same paths.
  void check(const AttentionShape& shape) {
    constexpr std::int64_t kMostUnderAddressSanitizer = 30'000'000;
    constexpr std::int64_t kMostUnderThreadSanitizer = 2'000'000;
    if (sanitized() && products_of(shape) > kMostUnderAddressSanitizer) return;
    if (thread_sanitized() && products_of(shape) > kMostUnderThreadSanitizer) return;
    check_together({shape});
  }
  // Computes attention of layers with these shapes in one step: plans them all first.
  void check_together(const std::vector<AttentionShape>& shapes) {
    std::vector<std::function<void()>> layers;
    for (const AttentionShape& shape : shapes) {
      const std::int64_t pages = std::max<std::int64_t>(1, AttentionTables::pages_of(shape));
      const AttentionTables tables(shape, deal_pages(pages));
      stream_->plan_attention(plan_of(shape, tables));
      layers.push_back([this, shape, pages, tables] { check_layer(shape, pages, tables); });
    }
    for (const auto& layer : layers) layer();
  }

 private:
  void check_layer(const AttentionShape& shape, std::int64_t pages, const AttentionTables& tables) {
    const std::int64_t width = shape.kv_heads * shape.group * shape.d;
    const TestTensor cache = cache_of(shape, pages);
    const TestTensor q = tensor(shape.dtype, {tables.rows, width}, 2, shape.d);
    const TestTensor out = tensor(shape.dtype, {tables.rows, width}, 1, shape.out_gap);
    const TestTensor sinks = tensor(DType::f32, {shape.kv_heads * shape.group}, 3);
    const auto sequences = array(tables.sequences);
    const auto page_ids = array(tables.page_ids);
    AttentionArgs on_host = args_of(shape, tables, q.host(), cache.host(), out.host());
    if (shape.sinks) on_host.sinks = sinks.host();
    reference::attention(on_host);
    AttentionArgs args = args_of(shape, tables, q.on_device(), cache.on_device(), out.on_device());
    if (shape.sinks) args.sinks = sinks.on_device();
    args.sequences = sequences.on_device();
    args.page_ids = page_ids.on_device();
    stream_->attention(args);
    expect_same(out, to_string(shape), tolerance_of_attention(shape.dtype));
  }
};

}  // namespace tandem
