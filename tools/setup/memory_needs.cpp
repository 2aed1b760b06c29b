#include "tools/setup/memory_needs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/limits/bytes_text.h"

namespace tandem {
namespace {

// Estimate for the program itself, its tokenizer, its threads and the answers under way.
constexpr double kProcess = 32e6;

}  // namespace

double room_for_pool(const MemoryNeeds& needs, const std::optional<MemoryLimit>& limit) {
  if (!limit) return std::numeric_limits<double>::infinity();
  return static_cast<double>(limit->free_bytes) - needs.weights - needs.work - needs.host_tier -
         kProcess;
}

Status check_memory_needs(const MemoryNeeds& needs, const std::optional<MemoryLimit>& limit,
                          const std::string& pool_setting) {
  if (!limit) return {};
  const double fixed = needs.weights + needs.work + kProcess;
  const double all = fixed + needs.pool + needs.host_tier;
  const auto free = static_cast<double>(limit->free_bytes);
  if (all <= free) return {};
  std::vector<std::string> parts;
  const auto add = [&](double bytes, const char* what) {
    if (bytes > 0) parts.push_back(fmt::format("{} for {}", bytes_text(bytes), what));
  };
  add(needs.weights, "weights");
  add(needs.work, "work space");
  add(needs.pool, "the page pool");
  add(needs.host_tier, "adapters in host memory");
  add(kProcess, "the process itself");
  const bool pool_is_larger = needs.pool > needs.host_tier;
  const std::string larger = pool_is_larger ? pool_setting : "host_tier_gb";
  const std::string smaller = pool_is_larger ? "host_tier_gb" : pool_setting;
  std::string remedy = "lower " + larger;
  if (fixed > free) {
    remedy = needs.weights > needs.work ? "take a smaller model"
                                        : "lower max_num_batched_tokens or max_num_seqs";
  } else if (all - std::max(needs.pool, needs.host_tier) > free && needs.pool > 0) {
    remedy += " and " + smaller;
  }
  return error(StatusCode::resource_exhausted,
               "{} of memory are needed ({}), and a cgroup's limit leaves {}: {}, or raise the "
               "limit (a container: --memory)",
               bytes_text(all), fmt::join(parts, ", "), to_text(*limit), remedy);
}

}  // namespace tandem
