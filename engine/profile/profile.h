// The profile of a machine and a model, one JSON file: `tandem profile` measures, fits and writes
// it, serve and route plan with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "scheduler/planning/coldstart/engine_lessons.h"
#include "scheduler/planning/costs/cost_model.h"

namespace tandem {

inline constexpr int kProfileVersion = 1;

// The machine that a profile holds for; its figures are invalid if any of these differs.
struct ProfileMachine {
  std::string cpu;         // "Intel(R) Xeon(R) ..."
  std::int64_t cores = 0;  // number of CPUs, hyper-threads included
  std::string device;      // DeviceInfo::name without host threads: "NVIDIA H200", "host"
  // CPU time in cores that a container's quota allowed during the measurement; 0: no quota. For
  // display: a profile measured under another quota is accepted.
  double quota_cpus = 0;
};

struct ProfileModel {
  std::string name;  // for display only
  std::int64_t hidden_size = 0, num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t ffn_size = 0, vocab_size = 0;
  DType dtype = DType::bf16;
  std::int64_t devices = 1;  // that share the model; each has a part of every layer, and a link

  static ProfileModel of(const ModelSpec& spec, DType dtype, std::string name,
                         std::int64_t devices);
};

// A linear model and its goodness of fit.
struct ProfileFit {
  std::string name;     // "prefill"
  std::string formula;  // "seconds = a + b tokens"
  std::vector<double> coefficients;
  double r2 = 0;
};

// Measurements: one row per case, one column per quantity.
struct ProfileTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<double>> rows;

  // Returns the values of a column by its name; empty if there is none.
  std::vector<double> column(std::string_view column) const;
};

// The uncertainty of a cost, from the raw measurements.
struct FigureSpread {
  std::string name;      // a key of cost_fields(), or "tokens_per_core"
  double value = 0;      // as measured; Profile::costs uses it if it is certain
  double spread = 0;     // half-width of its confidence interval over the value: 0.03
  bool certain = false;  // false: costs has another value, and `why` names it and why
  std::string why;       // a sentence for display; empty if there is nothing to report
};

struct Profile {
  std::string date;          // UTC, ISO 8601
  std::string commit;        // of the program's source
  double seconds = 0;        // duration of the measurement
  std::int32_t workers = 0;  // CPU workers that were measured together; plans assume this number
  ProfileMachine machine;
  ProfileModel model;
  CostModel costs;
  // One entry per measured cost; empty in files of programs without uncertainty estimates.
  std::vector<FigureSpread> figures;
  // Other users of the CPUs during the measurement, a sentence for display; empty: none.
  std::string others;
  std::vector<ProfileFit> fits;
  std::vector<ProfileTable> tables;
  // Corrections learned since by engines that planned with these costs; unset: none.
  std::optional<EngineLessons> lessons;

  const ProfileTable* table(std::string_view name) const;
  const ProfileFit* fit(std::string_view name) const;
  const FigureSpread* figure(std::string_view name) const;
  // False if a figure was judged uncertain: such costs should be checked before planning with them.
  bool is_certain() const;
};

// One member of CostModel, with its key and its plausible range. The table of these is the only
// list of the members, used for reading, writing and comparing.
struct CostField {
  const char* key;
  const char* what;  // "link, bytes per second"
  double CostModel::*member;
  double low, high;  // inclusive
};
const std::vector<CostField>& cost_fields();
inline constexpr std::string_view kTokensPerCore = "tokens_per_core";  // counted, not timed

// Returns ~/.config/tandem/profile.json, or the path below XDG_CONFIG_HOME if that is set; empty
// without a home directory.
std::string default_profile_path();
// Returns ~/.cache/tandem, or the path below XDG_CACHE_HOME; empty without a home directory. It
// holds data that can be learned again.
std::string default_costs_folder();

// Refuses, with the reason, anything but a profile of this version: absent keys, figures that are
// not numbers or outside the plausible range, tables of uneven rows.
Result<Profile> parse_profile(std::string_view json);
Result<Profile> read_profile(const std::filesystem::path& path);
std::string to_json(const Profile& profile);
// Writes atomically: readers see the old file or the new one. Creates the folder.
Status write_profile(const Profile& profile, const std::filesystem::path& path);

// Checks that the profile holds for this machine and model; otherwise names the difference and how
// to get a valid profile.
Status check_profile(const Profile& profile, const ProfileMachine& here, const ProfileModel& model);

}  // namespace tandem
