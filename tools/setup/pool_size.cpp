#include "tools/setup/pool_size.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/limits/bytes_text.h"
#include "base/limits/memory_limit.h"
#include "base/memory/memory_info.h"
#include "engine/batching/request_limits.h"
#include "engine/memory/pool_layout.h"
#include "engine/model/model.h"
#include "engine/model/weights/model_weights.h"
#include "tools/setup/memory_needs.h"

namespace tandem {
namespace {

// Share of the memory left after weights and work space. A GPU serves only this process, and the
// rest of it is for step metadata, recordings and the libraries; host memory is shared with other
// processes.
constexpr double kGpuShare = 0.92;
constexpr double kHostShare = 0.25;

double gigabytes(double bytes) {
  return bytes / 1e9;
}

// Limited because places in the pool and chunks of adapters have 32-bit numbers.
std::int64_t most_pages(const PoolLayout& layout) {
  constexpr std::int64_t kIds = std::numeric_limits<std::int32_t>::max();
  return std::min(kIds / layout.page_tokens, kIds / layout.chunks_per_page);
}

Result<std::int64_t> pages_of_setting(const EngineSettings& settings, const PoolLayout& layout) {
  const auto page_bytes = static_cast<double>(layout.page_bytes);
  const std::int64_t most = most_pages(layout);
  // Clamped before the conversion, so that it fits an integer.
  const auto pages = static_cast<std::int64_t>(
      std::min(settings.pool_gb * 1e9 / page_bytes, 2.0 * static_cast<double>(most)));
  if (pages < 1) {
    return invalid("pool_gb: {} does not hold one page of {}; raise it", settings.pool_gb,
                   bytes_text(page_bytes));
  }
  if (pages > most) {
    return invalid("pool_gb: a page pool has at most {} pages of {} tokens; lower it", most,
                   layout.page_tokens);
  }
  return pages;
}

}  // namespace

Result<PoolShape> choose_pool(const EngineSettings& settings, const ModelSpec& spec, DType dtype,
                              std::int64_t max_model_len, const Device& device,
                              const WeightSource& source, std::size_t host_tier_bytes) {
  const Shard shard{0, static_cast<std::int32_t>(settings.tensor_parallel)};
  const PoolLayout layout =
      PoolLayout::of(shape_of_shard(spec, shard.size), dtype, engine_defaults::kPageTokens);
  const auto pool_of = [&](std::int64_t pages) {
    return layout.pool(static_cast<std::int32_t>(pages), settings.options.max_num_batched_tokens);
  };
  const ModelLimits limits{settings.options.max_num_batched_tokens,
                           max_logit_rows(settings.options.max_num_seqs), max_model_len,
                           std::min(settings.options.max_lora_rank, device.info().max_lora_rank),
                           settings.options.max_added_tokens};
  const bool gpu = device.info().is_cuda;
  // Host devices share one memory, so each gets its part.
  const auto memory =
      static_cast<double>(gpu ? device.free_bytes()
                              : std::min(device.info().memory_bytes, available_memory()) /
                                    static_cast<std::size_t>(shard.size));
  // Packed matrices that cannot be cut are converted, so that shards differ in size.
  double weights = 0;
  double all_weights = 0;
  for (std::int32_t rank = 0; rank < shard.size; ++rank) {
    const auto bytes = static_cast<double>(
        ModelWeights::bytes_needed(spec, {rank, shard.size}, dtype, source, device));
    weights = std::max(weights, bytes);
    all_weights += bytes;
  }
  const auto work = static_cast<double>(Model::workspace_bytes(spec, shard, dtype, limits));
  const double left = memory - weights - work;
  const auto page_bytes = static_cast<double>(layout.page_bytes);
  const std::optional<MemoryLimit> limit = read_memory_limit();
  MemoryNeeds needs{0, 0, 0, static_cast<double>(host_tier_bytes)};
  if (!gpu) needs = {all_weights, work * shard.size, 0, needs.host_tier};
  const double host_pages = room_for_pool(needs, limit) / (page_bytes * shard.size);
  const auto check_host_memory = [&](double pages) {
    if (!gpu) needs.pool = pages * page_bytes * shard.size;
    return check_memory_needs(needs, limit, "pool_gb");
  };
  TANDEM_TRY(check_host_memory(1));
  if (settings.pool_gb > 0) {
    TANDEM_ASSIGN(const std::int64_t asked, pages_of_setting(settings, layout));
    const double pool = static_cast<double>(asked) * page_bytes;
    if (gpu && pool > left) {
      return error(
          StatusCode::resource_exhausted,
          "{:.2f} GB of GPU memory are needed, {:.2f} for weights, {:.2f} of work space and "
          "{:.2f} for the page pool, and {} has {:.2f} GB free; lower pool_gb, "
          "max_num_batched_tokens or max_num_seqs",
          gigabytes(weights + work + pool), gigabytes(weights), gigabytes(work), gigabytes(pool),
          device.info().name, gigabytes(memory));
    }
    TANDEM_TRY(check_host_memory(static_cast<double>(asked)));
    return pool_of(asked);
  }
  if (gpu && left * kGpuShare < page_bytes) {
    return error(StatusCode::resource_exhausted,
                 "the model needs {:.2f} GB for weights and {:.2f} GB of work space, and {} has "
                 "{:.2f} GB free: nothing is left for the page pool; take a smaller model or lower "
                 "max_num_batched_tokens or max_num_seqs",
                 gigabytes(weights), gigabytes(work), device.info().name, gigabytes(memory));
  }
  const double share = left * (gpu ? kGpuShare : kHostShare) / page_bytes;
  const auto pages = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(gpu ? share : std::min(share, host_pages)));
  if (gpu) return pool_of(std::min(pages, most_pages(layout)));
  // At most twice what all sequences need at full length: the other half is for adapters and for
  // kept prefixes.
  const std::int64_t longest = pool_of(1).pages_for(max_model_len);
  return pool_of(
      std::min({pages, 2 * settings.options.max_num_seqs * longest, most_pages(layout)}));
}

}  // namespace tandem
