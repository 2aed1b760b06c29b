#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "tests/gpu/ops/attention_fixture.h"
#include "tests/support/sanitized.h"

namespace tandem {
namespace {

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
      if (sanitized() && window != 7 && window != 129) continue;
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

TEST_F(PagedAttention, CountsTheSinkOfEachHeadOnce) {
  for (const DType dtype : kDtypes) {
    check({dtype, 2, 3, 64, 16, {{1, 1}, {1, 40}, {20, 60}}, 2, 0, 0, true});
    check({dtype, 1, 4, 64, 16, {{1, 1500}, {1, 700}}, 2, 0, 0, true});
    check({dtype, 2, 2, 24, 7, {{1, 900}, {33, 70}}, 2, 50, 2, true});
    check({dtype, 8, 1, 128, 16, {{1, 130}, {1, 4097}, {1, 12}}, 2, 100, 0, true});
    check({dtype, 8, 2, 128, 16, {{150, 400}, {64, 64}, {200, 200}, {1, 800}}, 0, 0, 0, true});
    check({dtype, 8, 2, 128, 16, {{150, 400}, {64, 64}, {200, 200}, {1, 800}}, 0, 70, 1, true});
    check({dtype, 8, 2, 64, 16, {{150, 400}, {64, 64}, {200, 200}, {1, 800}}, 0, 0, 0, true});
  }
}

// Windowed layers may have other heads than full ones; a step plans for both.
TEST_F(PagedAttention, KeepsThePlansOfTwoShapesOfHeads) {
  const std::vector<AttentionShape::Sequence> sequences{{1, 300}, {20, 60}};
  check_together({{DType::bf16, 2, 4, 64, 16, sequences}, {DType::bf16, 1, 8, 512, 16, sequences}});
}

// Parts of a tile are merged in a cluster if it has all of them, otherwise through memory.
TEST_F(PagedAttention, MergesPartsOfContextsOfAnyLength) {
  const bool all = device_->info().is_cuda;  // a host device has few parts, whatever the length
  const std::vector<std::int64_t> head_sizes =
      all ? std::vector<std::int64_t>{64, 96, 128, 256, 512} : std::vector<std::int64_t>{96, 128};
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
    for (const std::int64_t d : {64, 96, 128, 256, 512}) {
      for (const std::int64_t group : {1, 4, 5, 7, 8}) {
        check({dtype, 2, group, d, 16, {{1, 33}, {19, 50}, {1, 200}, {5, 5}}});
      }
    }
  }
}

TEST_F(PagedAttention, MatchesTheTwinForRandomMixes) {
  for (int round = 0; round < 25; ++round) {
    AttentionShape shape{kDtypes[round % 3],
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
    const AttentionShape shape{dtype, 2, 2, 64, 16, {{1, 144}, {1, 150}, {20, 60}, {1, 100}}, 0};
    const std::int64_t kv_width = shape.kv_heads * shape.d;
    const std::int64_t q_width = kv_width * shape.group;
    const std::int64_t pages = AttentionTables::pages_of(shape);
    AttentionTables tables(shape, deal_pages(pages));
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
  AttentionShape shape{DType::bf16, 2, 2, 64, 16, {}};
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
    AttentionShape shape{dtype, 8, 2, d, 16, {{1, 70}, {150, 160}, {1, 9}}, 0};
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
  AttentionShape shape{DType::bf16, sanitized() ? 4 : 32, 1, 128, 16, {}, 0};
  for (int s = 0; s < 6; ++s) shape.sequences.push_back({100 + s, 100 + 7 * s});
  check(shape);
}

// Enough tiles for Hopper's kernel; with other window and softcap by layer, the plan is the same.
TEST_F(PagedAttention, TakesPromptsWithWindowsAndSoftcaps) {
  const bool all = device_->info().is_cuda;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int64_t d : {128, 256}) {
      AttentionShape shape{dtype, 8, 2, d, 16, {{130, 300}, {140, 140}, {1, 400}, {150, 690}}, 0};
      for (const std::int32_t window : {40, 129, 300}) {
        shape.window = window;
        shape.softcap = window == 129 ? 0 : 1.5F;
        if (all || (window == 129 && d == 128)) check(shape);
      }
      shape.window = 0;
      if (all) check(shape);
    }
  }
}

}  // namespace
}  // namespace tandem
