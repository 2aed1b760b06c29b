#include "engine/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tandem {
namespace {

// Returns Tandem's folder in a directory of the user; empty without a home directory.
std::string folder_of_user(const char* variable, const char* in_home) {
  // Called once, at a command's start, when no other thread sets variables.
  const char* folder = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (folder != nullptr && *folder != 0) return std::string(folder) + "/tandem";
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  if (home == nullptr || *home == 0) return {};
  return fmt::format("{}/{}/tandem", home, in_home);
}

}  // namespace

ProfileModel ProfileModel::of(const ModelSpec& spec, DType dtype, std::string name,
                              std::int64_t devices) {
  return {.name = std::move(name),
          .hidden_size = spec.hidden_size,
          .num_layers = spec.num_layers(),
          .num_heads = spec.attention().heads,
          .num_kv_heads = spec.attention().kv_heads,
          .head_dim = spec.attention().head_dim,
          .ffn_size = spec.mlp().size,
          .vocab_size = spec.vocab_size,
          .dtype = dtype,
          .devices = devices};
}

std::vector<double> ProfileTable::column(std::string_view column) const {
  std::vector<double> values;
  const auto found = std::find(columns.begin(), columns.end(), column);
  if (found == columns.end()) return values;
  const auto index = static_cast<std::size_t>(found - columns.begin());
  values.reserve(rows.size());
  for (const std::vector<double>& row : rows) values.push_back(row[index]);
  return values;
}

const ProfileTable* Profile::table(std::string_view name) const {
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const ProfileTable& one) { return one.name == name; });
  return found == tables.end() ? nullptr : &*found;
}

const ProfileFit* Profile::fit(std::string_view name) const {
  const auto found = std::find_if(fits.begin(), fits.end(),
                                  [&](const ProfileFit& one) { return one.name == name; });
  return found == fits.end() ? nullptr : &*found;
}

const FigureSpread* Profile::figure(std::string_view name) const {
  const auto found = std::ranges::find(figures, name, &FigureSpread::name);
  return found == figures.end() ? nullptr : &*found;
}

bool Profile::is_certain() const {
  return std::ranges::all_of(figures, &FigureSpread::certain);
}

const std::vector<CostField>& cost_fields() {
  using M = CostModel;
  static const std::vector<CostField> fields = {
      {"link_bytes_per_s", "link, bytes/s", &M::link_bytes_per_s, 1e6, 1e13},
      {"copy_s", "each copy, s", &M::copy_s, 0, 1},
      {"layer_s", "layer of few rows, s", &M::layer_s, 1e-8, 100},
      {"layer_row_s", "layer, each row, s", &M::layer_row_s, 0, 10},
      {"overlap", "share of a layer behind which workers compute a site", &M::overlap, 0, 1},
      {"prepare", "share of a layer in which workers read ahead", &M::prepare, 0, 1},
      {"trip_s", "round trip of a site, s", &M::trip_s, 0, 1},
      {"row_byte_s", "each byte of x and y, s", &M::row_byte_s, 0, 1e-5},
      {"offer_s", "offer that the device answers, s", &M::offer_s, 0, 1},
      {"worker_bytes_per_s", "weights, one core, bytes/s", &M::worker_bytes_per_s, 1e5, 1e13},
      {"workers_bytes_per_s", "weights, all cores, bytes/s", &M::workers_bytes_per_s, 1e5, 1e14},
      {"worker_flops", "products, one core, FLOP/s", &M::worker_flops, 1e6, 1e15},
      {"worker_job_s", "each site's job, s", &M::worker_job_s, 0, 1},
  };
  return fields;
}

std::string default_profile_path() {
  const std::string folder = folder_of_user("XDG_CONFIG_HOME", ".config");
  return folder.empty() ? folder : folder + "/profile.json";
}

std::string default_costs_folder() {
  return folder_of_user("XDG_CACHE_HOME", ".cache");
}

Status check_profile(const Profile& profile, const ProfileMachine& here,
                     const ProfileModel& model) {
  std::string differs;
  const auto compare = [&](std::string_view what, const auto& of_profile, const auto& of_here) {
    if (of_profile == of_here) return;
    differs += fmt::format("{}{} is {}, the profile is of {}", differs.empty() ? "" : "; ", what,
                           of_here, of_profile);
  };
  compare("the CPU", profile.machine.cpu, here.cpu);
  compare("the number of cores", profile.machine.cores, here.cores);
  compare("the device", profile.machine.device, here.device);
  compare("the model's hidden size", profile.model.hidden_size, model.hidden_size);
  compare("its number of layers", profile.model.num_layers, model.num_layers);
  compare("its number of heads", profile.model.num_heads, model.num_heads);
  compare("its number of KV heads", profile.model.num_kv_heads, model.num_kv_heads);
  compare("its head size", profile.model.head_dim, model.head_dim);
  compare("its feed-forward size", profile.model.ffn_size, model.ffn_size);
  compare("its vocabulary", profile.model.vocab_size, model.vocab_size);
  compare("its dtype", to_string(profile.model.dtype), to_string(model.dtype));
  compare("the number of devices that share it", profile.model.devices, model.devices);
  if (differs.empty()) return {};
  return invalid(
      "it does not describe this machine and model: {}. `tandem profile --model ...` "
      "measures them; without a profile built-in figures are used",
      differs);
}

}  // namespace tandem
