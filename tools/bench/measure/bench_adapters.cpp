#include "tools/bench/measure/bench_adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "cpu_lora/topology/topology.h"
#include "engine/loader/thread_team.h"

namespace tandem {

std::vector<std::string_view> qkv_modules() {
  return {"q_proj", "k_proj", "v_proj"};
}

std::vector<std::string_view> all_modules() {
  return {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
}

std::vector<DummyAdapter> s2_adapters(std::int32_t count) {
  constexpr std::int32_t kRanks[] = {64, 32, 16, 8};
  std::vector<DummyAdapter> adapters;
  adapters.reserve(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) {
    adapters.push_back({fmt::format("s2-{}", i), kRanks[i % 4], qkv_modules()});
  }
  return adapters;
}

std::size_t adapter_bytes(const ModelSpec& spec, DType dtype, const DummyAdapter& adapter) {
  std::vector<std::size_t> rows;
  for (const std::string_view name : adapter.modules) rows.push_back(spec.modules.row(name));
  for (const Site site : adapter.whole) rows.push_back(spec.modules.first_of(site));
  std::int64_t elements = 0;
  for (const std::size_t module : rows) {
    for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
      const std::int64_t out = module_out(spec, layer, module);
      if (out == 0) continue;
      elements +=
          module_rank(spec, layer, module, adapter.rank) * (module_in(spec, layer, module) + out);
    }
  }
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

std::size_t num_usable_nodes() {
  std::set<int> nodes;
  if (const Result<std::vector<Core>> cores = read_topology()) {
    for (const Core& core : *cores) nodes.insert(core.numa_node);
  }
  return std::max<std::size_t>(1, nodes.size());
}

std::size_t host_tier_bytes_for(const ModelSpec& spec, DType dtype,
                                std::span<const DummyAdapter> adapters, std::size_t num_nodes) {
  constexpr std::size_t kPadding = std::size_t{1} << 20;  // for one adapter; far more than needed
  std::size_t bytes = kPadding;                           // a tier must not be empty
  std::size_t largest = 0;
  for (const DummyAdapter& adapter : adapters) {
    const std::size_t one = adapter_bytes(spec, dtype, adapter) + kPadding;
    bytes += one;
    largest = std::max(largest, one);
  }
  // An adapter is not split, so each node but one may have a rest too small for the next adapter.
  return bytes + (num_nodes - 1) * largest;
}

Status add_dummy_adapters(AdapterStore& store, const ModelSpec& spec, DType dtype,
                          std::span<const DummyAdapter> adapters,
                          const std::function<void(std::size_t)>& progress) {
  std::mutex mutex;  // guards failure and the calls of progress
  Status failure;
  std::size_t done = 0;
  std::atomic<bool> failed = false;
  parallel_chunks(adapters.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end && !failed; ++i) {
      const DummyAdapter& wanted = adapters[i];
      Adapter made =
          make_dummy_adapter(spec, dtype, wanted.rank, wanted.modules, i + 1, wanted.whole);
      made.invocation = wanted.invocation;
      const Status added = store.add(wanted.name, std::move(made), false, false);
      const std::lock_guard lock(mutex);
      if (!added) {
        failed = true;
        failure = added;
      } else if (progress) {
        progress(++done);
      }
    }
  });
  return failure;
}

}  // namespace tandem
