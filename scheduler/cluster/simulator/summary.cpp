#include "scheduler/cluster/simulator/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem {
namespace {

float at_share(const std::vector<float>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::min(std::max<std::size_t>(rank, 1), sorted.size()) - 1];
}

}  // namespace

Distribution summarise(std::vector<float>& samples, std::size_t points) {
  Distribution result;
  if (samples.empty()) return result;
  std::sort(samples.begin(), samples.end());
  result.mean =
      std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  result.p50 = at_share(samples, 0.5);
  result.p99 = at_share(samples, 0.99);
  const std::size_t count = std::min(points, samples.size());
  for (std::size_t i = 1; i <= count; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(count);
    result.cdf.emplace_back(at_share(samples, share), share);
  }
  return result;
}

}  // namespace tandem
