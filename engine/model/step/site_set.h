// A set of a layer's projections.
#pragma once

#include <compare>
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
  constexpr bool has_all(SiteSet others) const { return (bits_ & others.bits_) == others.bits_; }
  static constexpr SiteSet all() {  // of any model
    SiteSet sites;
    sites.bits_ = (1U << kMaxSites) - 1;
    return sites;
  }
  friend constexpr auto operator<=>(const SiteSet&, const SiteSet&) = default;  // NOLINT(*-nullptr)

 private:
  static constexpr unsigned bit(Site site) { return 1U << static_cast<unsigned>(site); }
  unsigned bits_ = 0;
};

}  // namespace tandem
