#include "cpu_lora/topology/plan/reader_plan.h"

namespace tandem {

ReaderPlan plan_readers(const PinPlan& plan) {
  // More readers do not increase the memory's throughput; a single reader is slower than the GPU
  // link.
  constexpr std::size_t kMost = 16, kLeastApart = 2;
  ReaderPlan readers;
  const auto add = [&](const std::vector<int>& cpus, std::size_t begin, std::size_t end) {
    for (; begin < end && readers.cpus.size() < kMost; ++begin) readers.cpus.push_back(cpus[begin]);
    return begin;
  };
  add(plan.engine_cpus, (plan.engine_cpus.size() + 1) / 2, plan.engine_cpus.size());
  for (const PinPlan::Workers& workers : plan.workers) {
    // At most half of the workers remain, so that PlanSituation distinguishes measurements of the
    // remaining workers from those of all workers.
    const std::size_t count = workers.cpus.size();
    readers.beside.push_back(add(workers.cpus, 0, count > 1 ? (count + 1) / 2 : 0));
  }
  readers.apart = readers.cpus.size();
  if (readers.apart < kLeastApart) return {};
  for (std::size_t i = 0; i < plan.workers.size(); ++i) {
    const std::vector<int>& cpus = plan.workers[i].cpus;
    add(cpus, readers.beside[i], cpus.size());
  }
  return readers;
}

}  // namespace tandem
