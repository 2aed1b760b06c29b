// Fairness among tenants: virtual token counters (Sheng et al., "Fairness in Serving Large Language
// Models", 2024).
//
// Each tenant has a counter of the service it has had: tokens of its prompts, and tokens generated
// for it at twice the price. Who has had least goes first. A tenant that comes back after a pause
// starts at the least counter of those that are there, and not below that of whose turn it was
// last: what was not used is not saved up, and who is there and cannot go on (its priority is low,
// its reader slow) gives nobody an advance.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

// Not thread-safe.
class FairShare {
 public:
  static constexpr double kPromptToken = 1;
  static constexpr double kOutputToken = 2;

  struct Tenant {
    double service = 0;         // its counter
    std::int64_t requests = 0;  // that wait or run
  };

  FairShare() = default;
  FairShare(const FairShare&) = delete;
  FairShare& operator=(const FairShare&) = delete;

  // One request more of this tenant waits from now on; its counter, which stays where it is until
  // leave() has been called as often. No name: a tenant like any other.
  Tenant& enter(std::string_view name);
  void leave(Tenant& tenant) noexcept;

  // A request of this tenant's begins: it was its turn.
  void begin(Tenant& tenant, std::int64_t prompt_tokens) {
    last_turn_ = std::max(last_turn_, tenant.service);
    tenant.service += kPromptToken * static_cast<double>(prompt_tokens);
  }
  static void charge_output(Tenant& tenant, std::int64_t tokens) {
    tenant.service += kOutputToken * static_cast<double>(tokens);
  }

  // Those without requests are kept only while their counters are above what they would start at:
  // names made up by strangers do not pile up.
  std::size_t num_tenants() const { return tenants_.size(); }
  // With requests that wait or run.
  std::size_t num_present() const { return present_; }

 private:
  double start() const;
  void forget();

  std::map<std::string, Tenant, std::less<>> tenants_;  // a node stays where it is
  std::int64_t requests_ = 0;                           // of all
  std::size_t present_ = 0;                             // tenants with requests
  double last_left_ = 0;                                // counter of the request that left last
  double last_turn_ = 0;         // the largest counter of a tenant whose request began
  std::size_t look_above_ = 64;  // tenants: then look for some to forget
};

// A request of a tenant, while it waits and runs. Moved from or empty, it is nobody's.
class TenantStay {
 public:
  TenantStay() = default;
  TenantStay(FairShare& share, std::string_view name)
      : share_(&share), tenant_(&share.enter(name)) {}  // `share` outlives it
  ~TenantStay() {
    if (tenant_ != nullptr) share_->leave(*tenant_);
  }
  TenantStay(TenantStay&& other) noexcept
      : share_(other.share_), tenant_(std::exchange(other.tenant_, nullptr)) {}
  TenantStay& operator=(TenantStay&& other) noexcept {
    std::swap(share_, other.share_);
    std::swap(tenant_, other.tenant_);
    return *this;
  }

  FairShare::Tenant* tenant() const { return tenant_; }  // null: none

 private:
  FairShare* share_ = nullptr;
  FairShare::Tenant* tenant_ = nullptr;
};

}  // namespace tandem
