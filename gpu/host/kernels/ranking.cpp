#include "gpu/host/kernels/ranking.h"

#include <algorithm>
#include <limits>

#include "gpu/host/kernels/kernels.h"

namespace tandem::host {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr std::size_t kBlock = 64;

void collect_at_least(std::span<const float> values, float floor, std::vector<Ranked>& out) {
  out.clear();
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t end = std::min(values.size(), begin + kBlock);
    for (std::size_t i = begin; i < end; ++i) {
      if (values[i] >= floor) out.push_back({values[i], static_cast<std::int32_t>(i)});
    }
  }
}

}  // namespace

Ranked best_of(std::span<const float> values) {
  const float best = max_row(values.data(), static_cast<std::int64_t>(values.size()));
  if (best == kLowest) return {kLowest, 0};
  const auto at = std::find(values.begin(), values.end(), best);
  return {best, static_cast<std::int32_t>(at - values.begin())};
}

void best_k(std::span<const float> values, std::int64_t k, std::vector<Ranked>& out,
            std::vector<float>& work) {
  const auto wanted = static_cast<std::size_t>(
      std::clamp<std::int64_t>(k, 0, static_cast<std::int64_t>(values.size())));
  out.clear();
  if (wanted == 0) return;
  // The wanted-th largest of the blocks' maxima is a lower bound of the wanted-th largest value.
  float floor = kLowest;
  const std::size_t blocks = (values.size() + kBlock - 1) / kBlock;
  if (blocks > wanted) {
    work.resize(blocks);
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t begin = b * kBlock;
      work[b] = max_row(values.data() + begin,
                        static_cast<std::int64_t>(std::min(kBlock, values.size() - begin)));
    }
    std::nth_element(work.begin(), work.begin() + static_cast<std::ptrdiff_t>(wanted) - 1,
                     work.end(), std::greater<>());
    floor = work[wanted - 1];
  }
  collect_at_least(values, floor, out);
  std::nth_element(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(wanted) - 1, out.end(),
                   better);
  out.resize(wanted);
  std::sort(out.begin(), out.end(), better);
}

Ranked prefix_with_mass(std::span<const float> values, double mass, std::vector<Ranked>& work) {
  // Most of the mass is usually in a few tokens: collects those above a floor, which falls step by
  // step.
  const float max = max_row(values.data(), static_cast<std::int64_t>(values.size()));
  for (float floor = max / 16; true; floor = floor > max * 1e-7F ? floor / 64 : 0) {
    collect_at_least(values, floor, work);
    double held = 0;
    for (const Ranked& candidate : work) held += candidate.value;
    if (held >= mass || floor == 0) break;
  }
  // Quickselect by mass: halves the candidates until only the one that crosses `mass` is left.
  auto begin = work.begin();
  auto end = work.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, better);
    double upper = 0;
    for (auto it = begin; it != middle; ++it) upper += it->value;
    if (upper >= mass) {
      end = middle;
    } else {
      mass -= upper;
      begin = middle;
    }
  }
  return begin == work.end() ? Ranked{0, 0} : *begin;
}

}  // namespace tandem::host
