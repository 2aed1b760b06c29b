#include "tools/setup/kept_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>
#include <utility>

#include "base/log/log.h"
#include "tools/cli/version.h"
#include "tools/setup/profile_costs.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNone = "none";

// Makes a name that suits a file: "nvidia-h200".
std::string slug(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string slug;
  for (const char c : text.substr(0, kLongest)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (slug.ends_with('-')) slug.pop_back();
  return slug;
}

std::string file_name(const Profile& base) {
  const ProfileModel& model = base.model;
  const std::string shared =
      model.devices > 1 ? fmt::format("_{}-devices", model.devices) : std::string();
  return fmt::format("costs_{}_{}_{}x{}-{}_{}{}_{}-workers_{:.0f}-gbps.json",
                     slug(base.machine.device), slug(base.machine.cpu), model.num_layers,
                     model.hidden_size, model.ffn_size, to_string(model.dtype), shared,
                     base.workers, base.costs.link_bytes_per_s * 1e-9);
}

bool same_figures(const CostModel& a, const CostModel& b) {
  return std::ranges::all_of(
      cost_fields(), [&](const CostField& field) { return a.*field.member == b.*field.member; });
}

}  // namespace

KeptCosts::KeptCosts(const fs::path& folder, Profile base)
    : base_(std::move(base)), path_(folder / file_name(base_)) {}

std::optional<EngineLessons> KeptCosts::read() {
  std::error_code ignored;
  if (!fs::exists(path_, ignored)) return std::nullopt;
  Result<Profile> kept = read_profile(path_);
  if (!kept) {
    log::warning("the costs learned on this machine cannot be read and are learned anew: {}",
                 kept.status().message());
    return std::nullopt;
  }
  if (!check_profile(*kept, base_.machine, base_.model) || kept->workers != base_.workers ||
      !same_figures(kept->costs, base_.costs)) {
    return std::nullopt;
  }
  base_.lessons = std::move(kept->lessons);
  return base_.lessons;
}

void KeptCosts::keep(const EngineLessons& lessons) {
  if (has_failed_ || lessons == EngineLessons() || base_.lessons == lessons) return;
  base_.lessons = lessons;
  base_.date = utc_now();
  const Status written = write_profile(base_, path_);
  if (written) return;
  has_failed_ = true;
  log::warning(
      "the costs learned on this machine are not saved: {}; name another folder in learned_costs",
      written.message());
}

std::unique_ptr<KeptCosts> open_kept_costs(const EngineSettings& settings, const ModelSpec& spec,
                                           DType dtype, const DeviceInfo& device,
                                           const HandoffOptions& handoff) {
  if (settings.learned_costs == kNone || handoff.groups.empty()) return nullptr;
  if (!goes_by_figures(settings.options.adapter_mode)) return nullptr;
  const fs::path folder =
      settings.learned_costs.empty() ? default_costs_folder() : settings.learned_costs;
  if (folder.empty()) return nullptr;
  Profile base;
  base.commit = build_commit();
  for (const HandoffOptions::Group& group : handoff.groups) {
    base.workers += static_cast<std::int32_t>(group.cpus.size());
  }
  base.machine = this_machine(device);
  base.model = this_model(spec, dtype, settings.model, settings.tensor_parallel);
  base.costs = handoff.costs;
  return std::make_unique<KeptCosts>(folder, std::move(base));
}

}  // namespace tandem
