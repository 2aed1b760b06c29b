#include "cpu_lora/topology/plan/core_counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem {
namespace {

// Few threads of a GPU's engine run at the same time: the engine's own thread, those of the server,
// of the load stream and of the disk.
constexpr int kLeastEngineCores = 2;
constexpr int kMostEngineCores = 4;

using Claim = CoreSlot::Claim;

class Counter {
 public:
  Counter(const MachineMap& machine, const PinOptions& options, std::size_t places,
          const std::vector<CoreSlot>& slots)
      : options_(options), places_(places), slots_(slots), quota_(quota_of(machine)) {}

  CoreCounts count(bool with_claimed) const {
    const auto number_of = [&](auto&& predicate) {
      return static_cast<int>(std::ranges::count_if(slots_, [&](const CoreSlot& slot) {
        return (with_claimed || slot.claim == Claim::none) && predicate(slot);
      }));
    };
    CoreCounts counts;
    counts.near = number_of([](const CoreSlot& s) { return s.near && !s.isolated; });
    counts.near_isolated = number_of([](const CoreSlot& s) { return s.near && s.isolated; });
    const int far = number_of([](const CoreSlot& s) { return !s.near && !s.isolated; });
    counts.far_engine = options_.host_device || counts.near == 0 ? far : 0;

    const std::vector<int> part = part_by_place();
    const int cores = std::min(std::accumulate(part.begin(), part.end(), 0), quota_);
    const int wished_workers = std::max(options_.workers, 0);
    int engine = options_.engine_cores;
    if (engine < 0 && options_.host_device) {
      const int all = number_of([](const CoreSlot& s) { return s.rank == 0; });
      const int near = number_of([](const CoreSlot& s) { return s.rank == 0 && s.near; });
      engine = std::min(all - std::min(wished_workers, near), quota_ - wished_workers);
    } else if (engine < 0) {
      engine = std::min(std::clamp(cores / 4, kLeastEngineCores, kMostEngineCores), cores);
      if (options_.workers >= 0) {
        // The engine gives up a core rather than let a worker have a sibling of another worker's
        // core or a core outside the plan's part.
        const int near = number_of([](const CoreSlot& s) { return s.near && s.rank == 0; });
        const int own = number_of([](const CoreSlot& s) { return s.near && s.rank == 0 && s.own; });
        if (own > wished_workers) engine = std::min(engine, own - wished_workers);
        engine = std::min(engine, near - wished_workers);
      }
    }
    counts.engine = std::clamp(engine, 1, std::max(1, counts.near + counts.far_engine));

    const int engine_near = std::max(0, counts.engine - counts.far_engine);
    const int most = std::max(0, counts.near_isolated + counts.near - engine_near);
    const int workers = options_.workers >= 0  ? options_.workers
                        : options_.host_device ? 0
                                               : default_workers(part, cores, engine_near);
    counts.workers = std::clamp(workers, 0, std::min(most, kMaxPlannedWorkers));
    return counts;
  }

 private:
  // The number of cores for the defaults, by place of the plan's GPUs: the free cores in this
  // plan's part of the nodes. If other engines have claimed the whole part, the free cores outside
  // it count, up to the size of the part.
  std::vector<int> part_by_place() const {
    std::vector<int> own(places_), own_free(places_), near_free(places_);
    for (const CoreSlot& slot : slots_) {
      if (!slot.near || slot.rank > 0) continue;
      const auto place = static_cast<std::size_t>(slot.place);
      const bool is_free = slot.claim == Claim::none;
      own[place] += slot.own ? 1 : 0;
      own_free[place] += slot.own && is_free ? 1 : 0;
      near_free[place] += is_free ? 1 : 0;
    }
    if (std::ranges::any_of(own_free, [](int cores) { return cores > 0; })) return own_free;
    for (std::size_t i = 0; i < places_; ++i) near_free[i] = std::min(near_free[i], own[i]);
    return near_free;
  }

  // The engine's cores are taken from the first place, as far as it has enough.
  int default_workers(const std::vector<int>& part, int cores, int engine) const {
    int left = engine;
    int workers = 0;
    for (const int place : part) {
      const int taken = std::min(place, left);
      left -= taken;
      workers += std::min(place - taken, kMostWorkersOfANode);
    }
    return std::min(workers, cores - engine);
  }

  const PinOptions& options_;
  const std::size_t places_;
  const std::vector<CoreSlot>& slots_;
  const int quota_;
};

}  // namespace

int quota_of(const MachineMap& machine) {
  constexpr double kMost = 1 << 20;
  if (!machine.quota_cpus) return static_cast<int>(kMost);
  return static_cast<int>(std::clamp(std::floor(*machine.quota_cpus), 1.0, kMost));
}

CoreCounts choose_counts(const MachineMap& machine, const PinOptions& options, std::size_t places,
                         std::vector<CoreSlot>& slots) {
  const Counter counter(machine, options, places, slots);
  const auto is_claimed = [](const CoreSlot& slot) { return slot.claim != Claim::none; };
  if (std::ranges::none_of(slots, is_claimed)) return counter.count(true);
  const CoreCounts free = counter.count(false);
  const bool no_engine = free.near + free.far_engine == 0;
  if (!no_engine && free.engine >= options.engine_cores && free.workers >= options.workers) {
    std::erase_if(slots, is_claimed);
    return free;
  }
  CoreCounts all = counter.count(true);
  if (options.engine_cores < 0 && !options.host_device) {
    all.engine = std::min(all.engine, std::max(1, free.near));
  }
  if (options.workers < 0) all.workers = no_engine ? 0 : free.workers;
  return all;
}

}  // namespace tandem
