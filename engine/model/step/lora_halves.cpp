#include "engine/model/step/lora_halves.h"

#include <algorithm>
#include <array>

#include "gpu/ops.h"

namespace tandem {
namespace {

// Ascending: a set comes before its supersets.
constexpr std::array kAutomatic = {SiteSet{}, SiteSet{Site::qkv}, SiteSet{Site::gate_up},
                                   SiteSet{Site::qkv, Site::gate_up}};
constexpr std::array kGathered = {SiteSet{}, SiteSet{Site::qkv}, SiteSet{Site::qkv, Site::gate_up}};
constexpr std::array kSLora = {SiteSet{}, SiteSet{Site::qkv}, SiteSet{Site::qkv, Site::o},
                               SiteSet{Site::qkv, Site::o, Site::gate_up, Site::down}};
constexpr std::array kReplicated = {SiteSet{}};

}  // namespace

std::span<const SiteSet> LoraHalves::sets() const {
  switch (options_.sharding) {
    case LoraSharding::automatic:
      return kAutomatic;
    case LoraSharding::gathered:
      return kGathered;
    case LoraSharding::s_lora:
      return kSLora;
    case LoraSharding::replicated:
      break;
  }
  return kReplicated;
}

bool LoraHalves::pays(std::int64_t ranks, std::int64_t rows, std::int64_t v_columns) const {
  const auto element = static_cast<std::int64_t>(size_of(shape_.dtype));
  const ShrinkWork work{ranks * shape_.hidden_size * element,
                        rows * v_columns * static_cast<std::int64_t>(sizeof(float))};
  return saved_by_gather(options_.costs, work, shape_.num_devices) > 0;
}

SiteSet LoraHalves::choose(std::int32_t rows, std::int32_t max_rank, const SiteRanks& ranks) const {
  if (!any() || rows > shape_.max_rows) return {};
  const std::int64_t share = lora_share(max_rank, shape_.num_devices);
  SiteSet wanted;
  for (std::size_t s = 0; s < shape_.modules.num_sites(); ++s) {
    const auto site = static_cast<Site>(s);
    const std::int32_t here = ranks[s];
    if (here == 0 || !sets().back().has(site)) continue;
    if (options_.sharding != LoraSharding::automatic ||
        pays(here, rows, shape_.num_devices * num_modules(site) * share)) {
      wanted.add(site);
    }
  }
  return *std::ranges::find_if(sets(), [&](SiteSet set) { return set.has_all(wanted); });
}

std::vector<SiteSet> LoraHalves::possible(std::int32_t rows, std::int32_t max_rank) const {
  if (!any() || max_rank == 0) return {SiteSet()};
  std::vector<SiteSet> found;
  for (const SiteSet set : sets()) {
    const auto may_pay = [&](Site site) {
      const std::int64_t ranks = std::int64_t{rows} * max_rank * num_modules(site);
      return !set.has(site) || pays(ranks, 0, 0);
    };
    if (options_.sharding != LoraSharding::automatic ||
        (may_pay(Site::qkv) && may_pay(Site::gate_up))) {
      found.push_back(set);
    }
  }
  return found;
}

}  // namespace tandem
