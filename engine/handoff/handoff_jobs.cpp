#include "engine/handoff/handoff_jobs.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}
int first_module(Site site) {
  return static_cast<int>(kFirstModuleOfSite[static_cast<std::size_t>(site)]);
}
int end_module(Site site) {
  return static_cast<int>(kFirstModuleOfSite[static_cast<std::size_t>(site) + 1]);
}
std::int64_t site_out(const ModelSpec& config, Site site) {
  std::int64_t out = 0;
  for (int m = first_module(site); m < end_module(site); ++m) {
    out += module_out(config, static_cast<Module>(m));
  }
  return out;
}

}  // namespace

bool adapts(const Adapter& adapter, std::int64_t layer, Site site) {
  const auto& modules = adapter.layers[index(layer)];
  for (int m = first_module(site); m < end_module(site); ++m) {
    if (modules[index(m)].rank > 0) return true;
  }
  return false;
}

GroupJob group_job(const ModelSpec& config, const GroupOfStep& of, std::uint32_t group,
                   std::int64_t layer, Site site) {
  const int first = first_module(site);
  GroupJob job;
  job.workers = of.workers;
  job.group = group;
  job.rows = of.rows;
  job.first_row = of.first_row;
  job.in = static_cast<std::uint32_t>(module_in(config, static_cast<Module>(first)));
  job.out = static_cast<std::uint32_t>(site_out(config, site));
  job.split = of.split;
  if (of.present_value != 0) {
    job.present_value = of.present_value;
    job.present = of.words_offset + index(layer) * sizeof(std::uint32_t);
  }
  std::uint32_t column = 0;
  for (int m = first; m < end_module(site); ++m) {
    const AdapterMatrix& matrix = of.adapter->layers[index(layer)][index(m)];
    const auto out = static_cast<std::uint32_t>(module_out(config, static_cast<Module>(m)));
    JobMatrix& to = job.modules[job.num_modules++];
    to.a = of.arena_offset + matrix.a_offset;
    to.b = of.arena_offset + matrix.b_offset;
    to.rank = static_cast<std::uint32_t>(matrix.rank);
    to.b_stride = static_cast<std::uint32_t>(matrix.b_stride);
    to.out = out;
    to.column = column;
    column += out;
    job.rank_columns += to.rank;
  }
  return job;
}

MailboxShape mailbox_shape(const ModelSpec& config, DType dtype, std::int32_t max_rank,
                           std::int32_t max_rows, std::int32_t num_worker_slots) {
  MailboxShape shape;
  shape.dtype = dtype;
  shape.num_worker_slots = static_cast<std::uint32_t>(num_worker_slots);
  shape.max_rows = static_cast<std::uint32_t>(max_rows);
  shape.max_rank = static_cast<std::uint32_t>(max_rank);
  for (int s = 0; s < kNumSites; ++s) {
    const auto site = static_cast<Site>(s);
    const auto in = module_in(config, static_cast<Module>(first_module(site)));
    shape.max_in = std::max(shape.max_in, static_cast<std::uint32_t>(in));
    shape.max_out = std::max(shape.max_out, static_cast<std::uint32_t>(site_out(config, site)));
  }
  return shape;
}

}  // namespace tandem
