// A set of a layer's projections.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "engine/model/spec/module_table.h"

namespace tandem {

class SiteSet {
 public:
  constexpr SiteSet() = default;
  constexpr SiteSet(std::initializer_list<Site> sites) {
    for (const Site site : sites) add(site);
  }
  constexpr void add(Site site) { bits_ |= bit(site); }
  constexpr void add(SiteSet sites) { bits_ |= sites.bits_; }
  constexpr bool has(Site site) const { return (bits_ & bit(site)) != 0; }
  constexpr bool has_any(SiteSet others) const { return (bits_ & others.bits_) != 0; }
  constexpr bool has_all(SiteSet others) const { return (bits_ & others.bits_) == others.bits_; }
  static constexpr SiteSet all() {  // of any model
    SiteSet sites;
    for (std::size_t site = 0; site < kMaxSites; ++site) sites.add(static_cast<Site>(site));
    return sites;
  }
  friend constexpr auto operator<=>(const SiteSet&, const SiteSet&) = default;  // NOLINT(*-nullptr)

 private:
  static constexpr std::uint64_t bit(Site site) {
    static_assert(kMaxSites <= 64);
    return std::uint64_t{1} << static_cast<unsigned>(site);
  }
  std::uint64_t bits_ = 0;
};

// Those where adapters have weights of norms.
inline constexpr SiteSet kNormSites = [] {
  SiteSet sites;
  for (std::size_t site = 0; site < kMaxSites; ++site) {
    if (is_norm(static_cast<Site>(site))) sites.add(static_cast<Site>(site));
  }
  return sites;
}();

}  // namespace tandem
