#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "tests/gpu/ops/ops_fixture.h"
#include "tests/support/sanitized.h"

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
    std::int32_t kv_len;  // 0: padding
  };
  std::vector<Sequence> sequences;
  std::int64_t out_gap = 2;  // elements between the rows of `out`
  std::int32_t window = 0;
  float softcap = 0;
};

std::string to_string(const Shape& shape) {
  return fmt::format("{} kv heads {} group {} d {} page {} sequences {}", to_string(shape.dtype),
                     shape.kv_heads, shape.group, shape.d, shape.page_tokens,
                     shape.sequences.size());
}

// Values lie in [-2, 2]. Tensor cores take the softmax weights in the compute dtype, so a result
// may be off by half an ulp of 1 times the largest value, however small the result itself is.
Tolerance tolerance_of_attention(DType dtype) {
  Tolerance tolerance = tolerance_of(dtype);
  if (dtype == DType::bf16) tolerance.absolute = 2 * 0x1p-9;
  if (dtype == DType::f16) tolerance.absolute = 2 * 0x1p-12;
  return tolerance;
}

// A step's description of its sequences, with pages taken at random from the cache.
struct Tables {
  std::vector<AttentionSequence> sequences;
  std::vector<std::int32_t> page_ids;
  std::int32_t rows = 0;
  std::int32_t max_rows = 0;
  std::int32_t max_kv_len = 0;

  Tables(const Shape& shape, std::vector<std::int32_t> pages) {
    std::size_t used = 0;
    for (const Shape::Sequence& sequence : shape.sequences) {
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

  static std::int64_t pages_of(const Shape& shape) {
    std::int64_t pages = 0;
    for (const Shape::Sequence& sequence : shape.sequences) {
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

  TestTensor cache_of(const Shape& shape, std::int64_t pages) {
    const std::int64_t page_elements = 2 * shape.kv_heads * shape.page_tokens * shape.d;
    // The gap between the pages, as other layers' pages would make it.
    return tensor(shape.dtype, {pages, page_elements + 24}, 2);
  }

  static AttentionPlan plan_of(const Shape& shape, const Tables& tables) {
    AttentionPlan plan;
    plan.heads = static_cast<std::int32_t>(shape.kv_heads * shape.group);
    plan.kv_heads = static_cast<std::int32_t>(shape.kv_heads);
    plan.head_dim = static_cast<std::int32_t>(shape.d);
    plan.page_tokens = shape.page_tokens;
    plan.dtype = shape.dtype;
    plan.sequences = tables.sequences.data();
    plan.num_sequences = static_cast<std::int32_t>(tables.sequences.size());
    plan.num_rows = tables.rows;
    plan.bounded = shape.window != 0 || shape.softcap != 0;
    return plan;
  }

  static AttentionArgs args_of(const Shape& shape, const Tables& tables, const TensorView& q,
                               const TensorView& cache, const TensorView& out) {
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

  void replay(DType dtype, std::int64_t group, std::int32_t rows, std::size_t num_sequences,
              const std::function<std::vector<Shape::Sequence>(int)>& next,
              std::int32_t max_keys = 600, std::int32_t window = 0, float softcap = 0);

  // Computes attention over a random cache.
  void check(const Shape& shape) {
    const std::int64_t pages = std::max<std::int64_t>(1, Tables::pages_of(shape));
    const Tables tables(shape, deal_pages(pages));
    const std::int64_t width = shape.kv_heads * shape.group * shape.d;
    const TestTensor cache = cache_of(shape, pages);
    const TestTensor q = tensor(shape.dtype, {tables.rows, width}, 2, shape.d);
    const TestTensor out = tensor(shape.dtype, {tables.rows, width}, 1, shape.out_gap);
    const auto sequences = array(tables.sequences);
    const auto page_ids = array(tables.page_ids);
    reference::attention(args_of(shape, tables, q.host(), cache.host(), out.host()));
    AttentionArgs args = args_of(shape, tables, q.on_device(), cache.on_device(), out.on_device());
    args.sequences = sequences.on_device();
    args.page_ids = page_ids.on_device();
    stream_->plan_attention(plan_of(shape, tables));
    stream_->attention(args);
    expect_same(out, to_string(shape), tolerance_of_attention(shape.dtype));
  }
};

TEST_F(PagedAttention, DecodesOneRowOfEverySequence) {
  for (const DType dtype : kDtypes) check({dtype, 2, 4, 64, 16, {{1, 1}, {1, 17}, {1, 40}}});
}

TEST_F(PagedAttention, IsCausalWithinAPrefillChunk) {
  for (const DType dtype : kDtypes) check({dtype, 2, 3, 32, 16, {{45, 45}, {7, 100}}});
}

TEST_F(PagedAttention, SplitsTheKeysOfALongDecode) {
  for (const DType dtype : kDtypes) {
    check({dtype, 1, 5, 24, 16, {{1, 1500}}});
    check({dtype, 1, 5, 64, 16, {{1, 1500}}});
  }
}

TEST_F(PagedAttention, SeesNoKeyBeforeItsWindow) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t window : {1, 7, 16, 129}) {
      check({dtype, 2, 3, 64, 16, {{1, 5}, {1, 200}, {60, 150}, {40, 40}}, 2, window});
      check({dtype, 1, 2, 24, 7, {{1, 1500}, {3, 400}}, 2, window});
      check({dtype, 8, 2, 128, 16, {{1, 3000}, {70, 200}, {1, 90}}, 2, window});
    }
    check({dtype, 8, 2, 128, 16, {{150, 400}, {64, 64}, {200, 200}, {1, 800}, {90, 300}}, 0, 50});
    check({dtype, 4, 2, 256, 16, {{150, 400}, {64, 64}, {200, 200}, {1, 800}, {90, 300}}, 0, 100});
    check({dtype, 1, 1, 32, 16, {{1, 1500}, {20, 1400}}, 2, 1100});
  }
}

TEST_F(PagedAttention, CapsItsScores) {
  for (const DType dtype : kDtypes) {
    check({dtype, 2, 2, 64, 16, {{1, 300}, {33, 70}}, 2, 0, 2});
    check({dtype, 2, 2, 24, 16, {{1, 900}, {33, 70}}, 2, 50, 0.5F});
    check({dtype, 4, 2, 256, 16, {{150, 400}, {64, 64}, {200, 200}, {1, 800}, {90, 300}}, 0, 0, 2});
    check(
        {dtype, 8, 2, 128, 16, {{150, 400}, {64, 64}, {200, 200}, {1, 800}, {90, 300}}, 0, 70, 1});
  }
}

// Parts of a tile are merged in a cluster if it has all of them, otherwise through memory.
TEST_F(PagedAttention, MergesPartsOfContextsOfAnyLength) {
  const bool all = device_->info().is_cuda;  // a host device has few parts, whatever the length
  const std::vector<std::int64_t> head_sizes =
      all ? std::vector<std::int64_t>{64, 96, 128, 256} : std::vector<std::int64_t>{96, 128};
  const std::vector<int> lengths =
      all ? std::vector{129, 250, 513, 900, 1100, 4097} : std::vector{129, 1100};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int64_t d : head_sizes) {
      for (const int keys : lengths) {
        check({dtype, 8, 1, d, 16, {{1, keys}}});
        check({dtype, 2, 4, d, 16, {{1, 70}, {1, keys}, {20, keys + 30}}});
        check({dtype, 3, 7, d, 16, {{1, keys}, {1, keys}, {1, keys + 1}, {3, 2 * keys}}});
      }
    }
  }
}

TEST_F(PagedAttention, TakesEveryHeadSizeAndGroupOfTheModels) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int64_t d : {64, 96, 128, 256}) {
      for (const std::int64_t group : {1, 4, 5, 7, 8}) {
        check({dtype, 2, group, d, 16, {{1, 33}, {19, 50}, {1, 200}, {5, 5}}});
      }
    }
  }
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

// Enqueued as a model does: keys of earlier steps may be read while the append still waits for a
// product, and no other keys, even in a page that another sequence's row fills.
TEST_F(PagedAttention, WaitsForKeysThatTheStepItselfWrites) {
  constexpr std::int64_t kWide = 2048;
  for (const DType dtype : kDtypes) {
    const Shape shape{dtype, 2, 2, 64, 16, {{1, 144}, {1, 150}, {20, 60}, {1, 100}}, 0};
    const std::int64_t kv_width = shape.kv_heads * shape.d;
    const std::int64_t q_width = kv_width * shape.group;
    const std::int64_t pages = Tables::pages_of(shape);
    Tables tables(shape, deal_pages(pages));
    // The second sequence shares the first one's nine pages, the last of which is filled in this
    // step.
    std::copy_n(tables.page_ids.begin(), 9, tables.page_ids.begin() + tables.sequences[1].pages);
    const std::int32_t settled[] = {143, 128, 40, 99};
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> slots;
    for (std::size_t s = 0; s < tables.sequences.size(); ++s) {
      AttentionSequence& sequence = tables.sequences[s];
      sequence.settled = settled[s];
      for (std::int32_t at = sequence.kv_len - sequence.num_rows; at < sequence.kv_len; ++at) {
        const auto page = static_cast<std::size_t>(sequence.pages + at / shape.page_tokens);
        positions.push_back(at);
        slots.push_back(tables.page_ids[page] * shape.page_tokens + at % shape.page_tokens);
      }
    }
    const TestTensor cache = cache_of(shape, pages);
    const TestTensor out = tensor(dtype, {tables.rows, q_width});
    const TestTensor cos_sin = tensor(DType::f32, {160, 2, shape.d / 2});
    const TestTensor x = tensor(dtype, {4, kWide});
    const TestTensor w = tensor(dtype, {kWide, kWide});
    const TestTensor y = tensor(dtype, {4, kWide});
    const auto sequences = array(tables.sequences);
    const auto page_ids = array(tables.page_ids);
    const auto position_array = array(positions);
    const auto slot_array = array(slots);
    const auto append = [&](const TensorView& all, const TensorView& table, const TensorView& pool,
                            const std::int32_t* at, const std::int32_t* where) {
      return append_of(all, shape.kv_heads * shape.group, shape.kv_heads, table, at, where,
                       {pool.data, pool.stride[0], shape.page_tokens});
    };
    const auto append_on_device = [&](const TestTensor& all) {
      stream_->rope_append(append(all.on_device(), cos_sin.on_device(), cache.on_device(),
                                  position_array.on_device(), slot_array.on_device()));
    };
    TestTensor old = tensor(dtype, {tables.rows, q_width + 2 * kv_width}, 2000);
    TestTensor qkv = tensor(dtype, {tables.rows, q_width + 2 * kv_width}, 2);
    AttentionArgs args = args_of(shape, tables, qkv.on_device().slice_cols(0, q_width),
                                 cache.on_device(), out.on_device());
    args.sequences = sequences.on_device();
    args.page_ids = page_ids.on_device();
    AttentionPlan plan = plan_of(shape, tables);
    plan.captured = true;
    const auto enqueue = [&] {
      stream_->gemm({x.on_device(), w.on_device(), {}, y.on_device()});
      append_on_device(qkv);
      stream_->attention(args);
    };
    // First as single operations, then as a recording, so that the CPU delays none of them.
    std::unique_ptr<Graph> recorded;
    for (int round = 0; round < (sanitized() ? 2 : 6); ++round) {
      old.fill(random_, 2000).upload(*stream_);
      qkv.fill(random_, 2).upload(*stream_);
      append_on_device(old);
      stream_->plan_attention(plan);
      ASSERT_TRUE(stream_->synchronize().ok());
      if (round == 1) {
        ASSERT_TRUE(stream_->begin_recording().ok());
        enqueue();
        auto graph = stream_->end_recording();
        ASSERT_TRUE(graph.ok()) << graph.status().message();
        recorded = *std::move(graph);
      }
      if (round == 0) {
        enqueue();
      } else {
        stream_->launch(*recorded);
      }
      reference::rope_append(append(qkv.host(), cos_sin.host(), cache.host(), position_array.host(),
                                    slot_array.host()));
      reference::attention(
          args_of(shape, tables, qkv.host().slice_cols(0, q_width), cache.host(), out.host()));
      expect_same(out, fmt::format("round {}: {}", round, to_string(shape)),
                  tolerance_of_attention(dtype));
    }
  }
}

TEST_F(PagedAttention, TakesManySequencesAtOnce) {
  Shape shape{DType::bf16, 2, 2, 64, 16, {}};
  for (int s = 0; s < 300; ++s)
    shape.sequences.push_back({1, static_cast<std::int32_t>(pick(1, 60))});
  check(shape);
}

TEST_F(PagedAttention, TakesLongContextsOfFewSequences) {
  check({DType::bf16, 1, 4, 128, 16, {{1, 9000}}});
  check({DType::f16, 2, 1, 64, 32, {{1, 5000}, {1, 3}, {3, 4000}}});
}

// Many long chunks, with dense results and decode rows between them: a step for which devices with
// a prompt kernel use it.
TEST_F(PagedAttention, MixesPromptsAndDecodeRows) {
  for (const auto& [dtype, d] :
       {std::pair(DType::bf16, 128), {DType::f16, 64}, {DType::f16, 256}}) {
    Shape shape{dtype, 8, 2, d, 16, {{1, 70}, {150, 160}, {1, 9}}, 0};
    for (int s = 0; s < 6; ++s) {
      shape.sequences.push_back({24 + s, static_cast<std::int32_t>(24 + s + pick(0, 20))});
    }
    shape.sequences.push_back({1, 33});
    check(shape);
  }
}

// Prompts of one and several tiles of 128 or 192 rows, with and without keys before them, and pages
// of any size.
TEST_F(PagedAttention, TakesPromptsOfManyTiles) {
  for (const auto& [dtype, d, page_tokens] :
       {std::tuple(DType::bf16, 128, 7), {DType::f16, 128, 16}, {DType::f16, 64, 40}}) {
    check({dtype,
           2,
           2,
           d,
           page_tokens,
           {{300, 300},
            {129, 440},
            {1, 70},
            {48, 48},
            {200, 233},
            {128, 128},
            {1, 5},
            {47, 47},
            {193, 193}},
           0});
  }
}

// A head has more tiles than any GPU has multiprocessors, so some process several tiles in
// sequence.
TEST_F(PagedAttention, TakesPromptsOfManySequences) {
  Shape shape{DType::bf16, sanitized() ? 4 : 32, 1, 128, 16, {}, 0};
  for (int s = 0; s < 6; ++s) shape.sequences.push_back({100 + s, 100 + 7 * s});
  check(shape);
}

// Records one step with this number of rows and sequences, and launches it for the steps that
// `next` makes, with as many sequences and at most as many rows. Rows without a sequence do not
// matter.
void PagedAttention::replay(DType dtype, std::int64_t group, std::int32_t rows,
                            std::size_t num_sequences,
                            const std::function<std::vector<Shape::Sequence>(int)>& next,
                            std::int32_t max_keys, std::int32_t window, float softcap) {
  Shape shape{dtype, 2, group, 64, 16, next(0), 2, window, softcap};
  const auto pages = static_cast<std::int64_t>(num_sequences) * (max_keys / shape.page_tokens + 1);
  const std::int64_t width = shape.kv_heads * shape.group * shape.d;
  const TestTensor cache = cache_of(shape, pages);
  const TestTensor q = tensor(dtype, {rows, width}, 2, shape.d);
  TestTensor out = tensor(dtype, {rows, width}, 1, 2);
  const auto sequences = array(std::vector<AttentionSequence>(num_sequences));
  const auto page_ids = array(std::vector<std::int32_t>(static_cast<std::size_t>(pages)));

  const auto plan_step = [&](const Tables& tables) {
    ASSERT_EQ(tables.sequences.size(), num_sequences);
    stream_->copy_to_device(sequences.on_device(), tables.sequences.data(),
                            tables.sequences.size() * sizeof(AttentionSequence));
    stream_->copy_to_device(page_ids.on_device(), tables.page_ids.data(),
                            tables.page_ids.size() * sizeof(std::int32_t));
    AttentionPlan plan = plan_of(shape, tables);
    plan.num_rows = rows;
    plan.captured = true;
    stream_->plan_attention(plan);
    ASSERT_TRUE(stream_->synchronize().ok());  // the copies have read `tables`
  };
  Tables tables(shape, deal_pages(pages));
  plan_step(tables);
  AttentionArgs args = args_of(shape, tables, q.on_device(), cache.on_device(), out.on_device());
  args.sequences = sequences.on_device();
  args.page_ids = page_ids.on_device();
  args.max_rows = rows;
  args.max_kv_len = max_keys;
  ASSERT_TRUE(stream_->begin_recording().ok());
  stream_->attention(args);
  auto graph = stream_->end_recording();
  ASSERT_TRUE(graph.ok()) << graph.status().message();

  for (int round = 0; round < (sanitized() ? 4 : 12); ++round) {
    shape.sequences = next(round);
    tables = Tables(shape, deal_pages(pages));
    plan_step(tables);
    stream_->launch(**graph);
    ASSERT_TRUE(stream_->synchronize().ok());
    const std::vector<std::byte> got = out.download(*stream_);
    const std::size_t row = got.size() / static_cast<std::size_t>(rows);
    reference::attention(args_of(shape, tables, q.host(), cache.host(), out.host()));
    std::vector<bool> used(static_cast<std::size_t>(rows), false);
    for (const AttentionSequence& sequence : tables.sequences) {
      for (std::int32_t r = 0; r < sequence.num_rows && sequence.kv_len > 0; ++r) {
        used[static_cast<std::size_t>(sequence.first_row + r)] = true;
      }
    }
    for (std::size_t r = 0; r < used.size(); ++r) {
      if (used[r]) continue;
      std::copy_n(got.data() + r * row, row, out.host().row_bytes(static_cast<std::int64_t>(r)));
    }
    expect_same(out, fmt::format("round {}: {}", round, to_string(shape)),
                tolerance_of_attention(dtype));
  }
}

TEST_F(PagedAttention, ReplaysARecordingForOtherLengths) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    replay(dtype, 4, 5, 5, [&](int round) {
      // Short, long and mixed steps; in every third round the last rows are padding.
      std::vector<Shape::Sequence> sequences;
      for (int s = 0; s < 5; ++s) {
        const bool padding = round % 3 == 2 && s >= 3;
        const auto keys = static_cast<std::int32_t>(pick(1, round % 4 == 0 ? 20 : 600));
        sequences.push_back({1, padding ? 0 : keys});
      }
      return sequences;
    });
  }
}

// Parts within one cluster, parts over several clusters, and uncut tiles.
TEST_F(PagedAttention, ReplaysARecordingForContextsThatOutgrowACluster) {
  constexpr std::int32_t kLengths[] = {20, 600, 9000};
  for (const std::int32_t rows : {1, 3}) {
    replay(
        DType::bf16, 4, rows, static_cast<std::size_t>(rows),
        [&](int round) {
          std::vector<Shape::Sequence> sequences;
          for (int s = 0; s < rows; ++s) sequences.push_back({1, kLengths[(round + s) % 3]});
          return sequences;
        },
        9000);
  }
}

// Most items of the long contexts lie before the window, and see no key.
TEST_F(PagedAttention, ReplaysARecordingWithAWindowAndACap) {
  constexpr std::int32_t kLengths[] = {20, 600, 5000};
  for (const auto& [window, softcap] : {std::pair(1, 0.0F), {50, 0.0F}, {1000, 3.0F}}) {
    replay(
        DType::bf16, 4, 3, 3,
        [&](int round) {
          std::vector<Shape::Sequence> sequences;
          for (int s = 0; s < 3; ++s) sequences.push_back({1, kLengths[(round + s) % 3]});
          return sequences;
        },
        5000, window, softcap);
  }
}

TEST_F(PagedAttention, ReplaysARecordingForOtherPrompts) {
  constexpr std::int32_t kRows = 56;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const std::int32_t most : {1, 4, kRows}) {  // sequences
      for (const std::int64_t group : {1, 4, 24}) {
        // The reference would take minutes under a sanitizer; the largest group is tested once.
        if (sanitized() && group != (dtype == DType::f32 && most == 4 ? 24 : 4)) continue;
        replay(dtype, group, kRows, static_cast<std::size_t>(most), [&](int round) {
          // One prompt of all rows, then any number of chunks of any lengths.
          std::vector<Shape::Sequence> sequences;
          std::int32_t left = kRows;
          for (std::int32_t s = 0; s < most; ++s) {
            const auto rows = static_cast<std::int32_t>(
                round == 0 ? (s == 0 ? left : 0)
                           : std::min<std::int64_t>(left, pick(0, 2 * kRows / most)));
            const auto before = static_cast<std::int32_t>(pick(0, round % 2 == 0 ? 0 : 500));
            sequences.push_back({rows, rows == 0 ? 0 : before + rows});
            left -= rows;
          }
          return sequences;
        });
      }
    }
  }
}

}  // namespace
}  // namespace tandem
