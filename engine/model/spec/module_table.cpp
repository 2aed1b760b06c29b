#include "engine/model/spec/module_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

namespace {

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

}  // namespace

std::string_view AdaptedModule::name() const {
  return last_part(path);
}

std::string_view AdaptedModule::name_in(const TensorNames& names) const {
  return last_part(path_in(names));
}

std::string_view AdaptedModule::path_in(const TensorNames& names) const {
  if (named == nullptr) return path;
  constexpr std::string_view kEnding = ".weight";
  std::string_view name = names.*named;
  if (name.ends_with(kEnding)) name.remove_suffix(kEnding.size());
  return name;
}

ModuleTable::ModuleTable(std::vector<AdaptedModule> rows) : rows_(std::move(rows)) {
  TANDEM_CHECK(std::ranges::is_sorted(rows_, {}, &AdaptedModule::site) &&
                   (rows_.empty() || index(rows_.back().site) < kMaxSites),
               "{} modules", rows_.size());
  for (const AdaptedModule& row : rows_) {
    if (takes_offers(row.site)) num_sites_ = index(row.site) + 1;
  }
  for (std::size_t site = 0; site < kMaxSites; ++site) {
    const auto of_site = [&](const AdaptedModule& row) { return index(row.site) == site; };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(rows_, of_site));
    TANDEM_CHECK(count <= kMaxModulesOfSite, "{} modules at site {}", count, site);
    first_[site + 1] = first_[site] + count;
  }
  for (std::size_t m = 0; m < rows_.size(); ++m) {
    TANDEM_CHECK(!rows_[m].is_lora() || find(rows_[m].name()) == m, "two modules are named {}",
                 rows_[m].name());
  }
}

void ModuleTable::fuse(Site site, std::string_view fused_path) {
  for (const Site each : {site, whole_of(site), bias_of(site)}) {
    for (std::size_t m = first_of(each); m < end_of(each); ++m) rows_[m].fused_path = fused_path;
  }
}

std::optional<std::size_t> ModuleTable::find(std::string_view name) const {
  const auto found = std::ranges::find_if(
      rows_, [&](const AdaptedModule& row) { return row.is_lora() && row.name() == name; });
  if (found == rows_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rows_.begin());
}

std::size_t ModuleTable::row(std::string_view name) const {
  const std::optional<std::size_t> found = find(name);
  TANDEM_CHECK(found.has_value(), "no module {}", name);
  return *found;
}

std::int64_t module_in(const ModelSpec& spec, std::int64_t layer, std::size_t module) {
  return spec.modules[module].in(spec, spec.layer(layer));
}

std::int64_t module_out(const ModelSpec& spec, std::int64_t layer, std::size_t module) {
  return spec.modules[module].out(spec, spec.layer(layer));
}

std::int64_t module_rank(const ModelSpec& spec, std::int64_t layer, std::size_t module,
                         std::int64_t rank) {
  const AdaptedModule& row = spec.modules[module];
  if (row.is_vector) return 1;
  return row.is_whole() ? row.width(spec, spec.layer(layer)) : rank;
}

}  // namespace tandem
