#include "engine/handoff/handoff_jobs.h"

#include <algorithm>
#include <array>

namespace tandem {
namespace {

static_assert(kMaxModulesOfSite == kMaxModulesOfJob);

constexpr std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

bool adapts(const Adapter& adapter, const ModuleTable& modules, std::int64_t layer, Site site) {
  const auto of_site =
      adapter.layers[index(layer)].subspan(modules.first_of(site), modules.num_of(site));
  return std::ranges::any_of(of_site, [](const AdapterMatrix& matrix) { return matrix.rank > 0; });
}

GroupJob group_job(const ModelSpec& spec, const GroupOfStep& of, std::uint32_t group,
                   std::int64_t layer, Site site) {
  GroupJob job;
  job.workers = of.workers;
  job.group = group;
  job.rows = of.rows;
  job.first_row = of.first_row;
  job.split = of.split;
  if (of.present_value != 0) {
    job.present_value = of.present_value;
    job.present = of.words_offset + index(layer) * sizeof(std::uint32_t);
  }
  const ModuleTable& modules = spec.modules;
  for (std::size_t m = modules.first_of(site); m < modules.end_of(site); ++m) {
    const AdapterMatrix& matrix = of.adapter->layers[index(layer)][m];
    JobMatrix& to = job.modules[job.num_modules++];
    to.a = of.arena_offset + matrix.a_offset;
    to.b = of.arena_offset + matrix.b_offset;
    to.rank = static_cast<std::uint32_t>(matrix.rank);
    to.b_stride = static_cast<std::uint32_t>(matrix.b_stride);
    to.out = static_cast<std::uint32_t>(module_out(spec, layer, m));
    to.column = job.out;
    job.out += to.out;
    job.rank_columns += to.rank;
    if (to.out > 0) job.in = static_cast<std::uint32_t>(module_in(spec, layer, m));
  }
  return job;
}

MailboxShape mailbox_shape(const ModelSpec& spec, DType dtype, std::int32_t max_rank,
                           std::int32_t max_rows, std::int32_t num_worker_slots) {
  MailboxShape shape;
  shape.dtype = dtype;
  shape.num_worker_slots = static_cast<std::uint32_t>(num_worker_slots);
  shape.max_rows = static_cast<std::uint32_t>(max_rows);
  shape.max_rank = static_cast<std::uint32_t>(max_rank);
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    std::array<std::uint32_t, kMaxSites> out = {};
    for (std::size_t m = 0; m < spec.modules.size(); ++m) {
      if (!takes_offers(spec.modules[m].site)) continue;
      std::uint32_t& of_site = out[static_cast<std::size_t>(spec.modules[m].site)];
      of_site += static_cast<std::uint32_t>(module_out(spec, layer, m));
      shape.max_in = std::max(shape.max_in, static_cast<std::uint32_t>(module_in(spec, layer, m)));
      shape.max_out = std::max(shape.max_out, of_site);
    }
  }
  return shape;
}

}  // namespace tandem
