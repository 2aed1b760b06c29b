// Attention in recordings, which are replayed for other sequences than those of the recording.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "tests/gpu/ops/attention_fixture.h"
#include "tests/support/sanitized.h"

namespace tandem {
namespace {

class AttentionReplay : public PagedAttention {
 protected:
  // Records a step of next(0), and replays it for the sequences of next(round), of up to `max_keys`
  // keys each.
  void replay(DType dtype, std::int64_t group, std::int32_t rows, std::size_t num_sequences,
              const std::function<std::vector<AttentionShape::Sequence>(int)>& next,
              std::int32_t max_keys = 600, std::int32_t window = 0, float softcap = 0);
};

void AttentionReplay::replay(DType dtype, std::int64_t group, std::int32_t rows,
                             std::size_t num_sequences,
                             const std::function<std::vector<AttentionShape::Sequence>(int)>& next,
                             std::int32_t max_keys, std::int32_t window, float softcap) {
  AttentionShape shape{dtype, 2, group, 64, 16, next(0), 2, window, softcap};
  const auto pages = static_cast<std::int64_t>(num_sequences) * (max_keys / shape.page_tokens + 1);
  const std::int64_t width = shape.kv_heads * shape.group * shape.d;
  const TestTensor cache = cache_of(shape, pages);
  const TestTensor q = tensor(dtype, {rows, width}, 2, shape.d);
  TestTensor out = tensor(dtype, {rows, width}, 1, 2);
  const auto sequences = array(std::vector<AttentionSequence>(num_sequences));
  const auto page_ids = array(std::vector<std::int32_t>(static_cast<std::size_t>(pages)));

  const auto plan_step = [&](const AttentionTables& tables) {
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
  AttentionTables tables(shape, deal_pages(pages));
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

  const int rounds = thread_sanitized() ? 2 : sanitized() ? 4 : 12;
  for (int round = 0; round < rounds; ++round) {
    shape.sequences = next(round);
    tables = AttentionTables(shape, deal_pages(pages));
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

TEST_F(AttentionReplay, ReplaysARecordingForOtherLengths) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    replay(dtype, 4, 5, 5, [&](int round) {
      // Short, long and mixed steps; in every third round the last rows are padding.
      std::vector<AttentionShape::Sequence> sequences;
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
TEST_F(AttentionReplay, ReplaysARecordingForContextsThatOutgrowACluster) {
  constexpr std::int32_t kLengths[] = {20, 600, 9000};
  for (const std::int32_t rows : {1, 3}) {
    replay(
        DType::bf16, 4, rows, static_cast<std::size_t>(rows),
        [&](int round) {
          std::vector<AttentionShape::Sequence> sequences;
          for (int s = 0; s < rows; ++s) sequences.push_back({1, kLengths[(round + s) % 3]});
          return sequences;
        },
        9000);
  }
}

// Most items of the long contexts lie before the window, and see no key.
TEST_F(AttentionReplay, ReplaysARecordingWithAWindowAndACap) {
  constexpr std::int32_t kLengths[] = {20, 600, 5000};
  for (const auto& [window, softcap] : {std::pair(1, 0.0F), {50, 0.0F}, {1000, 3.0F}}) {
    replay(
        DType::bf16, 4, 3, 3,
        [&](int round) {
          std::vector<AttentionShape::Sequence> sequences;
          for (int s = 0; s < 3; ++s) sequences.push_back({1, kLengths[(round + s) % 3]});
          return sequences;
        },
        5000, window, softcap);
  }
}

TEST_F(AttentionReplay, ReplaysARecordingForOtherPrompts) {
  constexpr std::int32_t kRows = 56;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const std::int32_t most : {1, 4, kRows}) {  // sequences
      for (const std::int64_t group : {1, 4, 24}) {
        // The reference would take minutes under a sanitizer; the largest group is tested once.
        if (sanitized() && group != (dtype == DType::f32 && most == 4 ? 24 : 4)) continue;
        if (thread_sanitized() && group != 4) continue;
        replay(dtype, group, kRows, static_cast<std::size_t>(most), [&](int round) {
          // One prompt of all rows, then any number of chunks of any lengths.
          std::vector<AttentionShape::Sequence> sequences;
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
