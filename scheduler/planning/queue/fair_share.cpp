#include "scheduler/planning/queue/fair_share.h"

#include <algorithm>
#include <limits>

namespace tandem {

FairShare::Tenant& FairShare::enter(std::string_view name) {
  if (tenants_.size() > look_above_) forget();
  const double least = start();
  auto found = tenants_.find(name);
  if (found == tenants_.end()) found = tenants_.emplace(name, Tenant{}).first;
  Tenant& tenant = found->second;
  if (tenant.requests == 0) {
    tenant.service = std::max(tenant.service, least);
    ++present_;
  }
  ++tenant.requests;
  ++requests_;
  return tenant;
}

void FairShare::leave(Tenant& tenant) noexcept {
  if (--tenant.requests == 0) --present_;
  --requests_;
  last_left_ = tenant.service;
}

// The initial counter of a tenant that arrives now: the least counter of the present tenants, or,
// if there are none, the counter of the last one that left; at least last_turn_.
double FairShare::start() const {
  if (requests_ == 0) return std::max(last_left_, last_turn_);
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.requests > 0) least = std::min(least, tenant.service);
  }
  return std::max(least, last_turn_);
}

void FairShare::forget() {
  const double least = start();
  std::erase_if(tenants_, [least](const auto& each) {
    return each.second.requests == 0 && each.second.service <= least;
  });
  look_above_ = std::max<std::size_t>(64, 2 * tenants_.size());
}

}  // namespace tandem
