#include "scheduler/cluster/policies/policy.h"

#include <fmt/ranges.h>

#include "scheduler/cluster/policies/adapter_policies.h"
#include "scheduler/cluster/policies/rank_aware_policy.h"
#include "scheduler/cluster/policies/simple_policies.h"
#include "scheduler/cluster/policies/tandem_policy.h"

namespace tandem {

std::vector<std::string> policy_names() {
  return {"random",  "round_robin", "most_idle",  "first_fit", "punica",
          "hashing", "affinity",    "rank_aware", "tandem"};
}

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options) {
  std::unique_ptr<Policy> policy;
  if (name == "random") policy = std::make_unique<RandomPolicy>(options.seed);
  if (name == "round_robin") policy = std::make_unique<RoundRobinPolicy>();
  if (name == "most_idle") policy = std::make_unique<MostIdlePolicy>();
  if (name == "first_fit") policy = std::make_unique<FirstFitPolicy>();
  if (name == "punica") policy = std::make_unique<PunicaPolicy>();
  if (name == "hashing") {
    policy = std::make_unique<HashingPolicy>(options.seed, options.hashing_bound);
  }
  if (name == "affinity") policy = std::make_unique<AffinityPolicy>();
  if (name == "rank_aware") policy = std::make_unique<RankAwarePolicy>(options);
  if (name == "tandem") policy = std::make_unique<TandemPolicy>(options);
  if (policy == nullptr) {
    return invalid("policy '{}' is unknown; there are {}", name, fmt::join(policy_names(), ", "));
  }
  return policy;
}

}  // namespace tandem
