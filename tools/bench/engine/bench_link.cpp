#include "tools/bench/engine/bench_link.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/loader/adapter.h"
#include "engine/loader/random_fill.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/pool_layout.h"

namespace tandem {
namespace {

constexpr std::int64_t kRank = 64;
constexpr int kRounds = 50;

// Bytes of A and B of q, k and v for one layer.
std::size_t piece_bytes(const ModelSpec& spec, DType dtype) {
  std::int64_t elements = 0;
  for (const std::string_view name : qkv_modules()) {
    const std::size_t module = spec.modules.row(name);
    elements += kRank * (module_in(spec, 0, module) + module_out(spec, 0, module));
  }
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

// The chunks of an adapter of `count` chunks after small adapters were allocated and freed around
// it: eight used chunks, eight free ones, and so on.
ChunkTable scattered_chunks(PagePool& pool, std::int64_t count, std::vector<ChunkTable>& others) {
  std::vector<ChunkTable> gone;
  for (std::int64_t taken = 0; taken < 3 * count; taken += 16) {
    for (auto* list : {&others, &gone}) {
      if (auto table = pool.take_chunks(8)) list->push_back(*std::move(table));
    }
  }
  gone.clear();
  auto chunks = pool.take_chunks(count);
  return chunks ? *std::move(chunks) : ChunkTable();
}

}  // namespace

Status measure_layer_pieces(Device& device, const ModelSpec& spec, DType dtype,
                            std::int32_t page_tokens, BenchReport& report) {
  const PoolLayout layout = PoolLayout::of(spec, dtype, page_tokens);
  const std::size_t piece = piece_bytes(spec, dtype);
  const std::size_t total = piece * static_cast<std::size_t>(spec.num_layers());
  const std::int64_t count = layout.chunks_for(total);
  const auto num_pages = static_cast<std::int32_t>(4 * count / layout.chunks_per_page + 2);
  PagePool pool(num_pages, page_tokens, layout.chunks_per_page);
  std::vector<ChunkTable> others;
  const ChunkTable chunks = scattered_chunks(pool, count, others);
  if (chunks.empty()) {
    return error(StatusCode::internal, "no room for {} chunks in {} pages", count, num_pages);
  }

  TANDEM_ASSIGN(const Buffer host, device.allocate_pinned(total, "an adapter"));
  TANDEM_ASSIGN(const Buffer memory,
                device.allocate(static_cast<std::size_t>(num_pages) * layout.page_bytes, "a pool"));
  TANDEM_ASSIGN(const auto stream, device.create_stream("adapter load"));
  random_fill(1, 0, total / size_of(dtype), 0, 1, dtype, host.data());
  std::vector<std::unique_ptr<Event>> arrived;
  std::size_t copies = 0;
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    arrived.push_back(device.create_event());
  }
  const auto copy_pieces = [&] {
    copies = 0;
    for (std::size_t layer = 0; layer < arrived.size(); ++layer) {
      for (const ChunkRun& run :
           chunks.runs(layer * piece, (layer + 1) * piece, layout.chunk_shift)) {
        stream->copy_to_device(memory.data() + run.to, host.data() + run.from, run.bytes);
        ++copies;
      }
      stream->record(*arrived[layer]);
    }
  };

  const SteadyClock clock;
  Samples whole{"a rank-64 qkv adapter in one copy", "GB/s", {}};
  Samples pieces{"the same in layer pieces into a fragmented pool", "GB/s", {}};
  for (int round = -3; round < kRounds; ++round) {  // alternating
    TimePoint start = clock.now();
    stream->copy_to_device(memory.data(), host.data(), total);
    TANDEM_TRY(stream->synchronize());
    const double one = seconds_between(start, clock.now());
    start = clock.now();
    copy_pieces();
    TANDEM_TRY(stream->synchronize());
    const double many = seconds_between(start, clock.now());
    if (round < 0) continue;
    whole.values.push_back(static_cast<double>(total) / one / 1e9);
    pieces.values.push_back(static_cast<double>(total) / many / 1e9);
  }
  report.add(whole);
  report.add(pieces);
  report.add({"link",
              fmt::format("layer pieces of {:.1f} MB in {} copies, over one copy",
                          static_cast<double>(piece) / 1e6, copies),
              pieces.median() / whole.median(), "", Must::be_at_least, 0.9});
  return {};
}

}  // namespace tandem
