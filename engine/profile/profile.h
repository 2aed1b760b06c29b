// The profile of a machine and a model: what `tandem profile` measured, fitted and wrote, and what
// serve and route plan with. One JSON file.
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
#include "scheduler/coldstart/engine_lessons.h"
#include "scheduler/costs/cost_model.h"

namespace tandem {

inline constexpr int kProfileVersion = 1;

// What a profile holds for: with another of these, its figures say nothing.
struct ProfileMachine {
  std::string cpu;         // "Intel(R) Xeon(R) ..."
  std::int64_t cores = 0;  // of the machine, hyper-threads counted
  std::string device;      // DeviceInfo::name without the host's threads: "NVIDIA H200", "host"
  // CPU time in cores that a container's quota left when it was measured; 0: no quota. For people:
  // a profile of another quota is read.
  double quota_cpus = 0;
};

struct ProfileModel {
  std::string name;  // for people alone
  std::int64_t hidden_size = 0, num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t ffn_size = 0, vocab_size = 0;
  DType dtype = DType::bf16;
  std::int64_t devices = 1;  // that share it: each has a part of every layer, and a link

  static ProfileModel of(const ModelSpec& config, DType dtype, std::string name,
                         std::int64_t devices);
};

// A linear model with how well it fits.
struct ProfileFit {
  std::string name;     // "prefill"
  std::string formula;  // "seconds = a + b tokens"
  std::vector<double> coefficients;
  double r2 = 0;
};

// Measurements: each row one case, each column one quantity.
struct ProfileTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<double>> rows;

  // Values of a column, by its name; empty when there is none.
  std::vector<double> column(std::string_view column) const;
};

// How far a cost can be trusted: what was measured, before anything was made of it.
struct FigureSpread {
  std::string name;      // a key of cost_fields(), or "tokens_per_core"
  double value = 0;      // as measured; Profile::costs has it where it is certain
  double spread = 0;     // half the width of the interval that holds it, over the value: 0.03
  bool certain = false;  // false: costs has another value, and `why` says which and for what reason
  std::string why;       // a sentence for people; empty: nothing is the matter
};

struct Profile {
  std::string date;          // UTC, ISO 8601
  std::string commit;        // of the program
  double seconds = 0;        // that measuring took
  std::int32_t workers = 0;  // CPU workers that were measured together, and are planned with
  ProfileMachine machine;
  ProfileModel model;
  CostModel costs;
  // One for each cost that was measured; none in files of programs that did not judge them.
  std::vector<FigureSpread> figures;
  // Who else had processors while they were measured, a sentence for people; empty: nobody.
  std::string others;
  std::vector<ProfileFit> fits;
  std::vector<ProfileTable> tables;
  // What engines that planned with these costs have learnt since; none: nothing.
  std::optional<EngineLessons> lessons;

  const ProfileTable* table(std::string_view name) const;
  const ProfileFit* fit(std::string_view name) const;
  const FigureSpread* figure(std::string_view name) const;
  // False where a figure was judged to be uncertain: whoever plans with these costs should check
  // them first.
  bool is_certain() const;
};

// The one place that names CostModel's members, for reading, writing and comparing: each with its
// key and the range that a sane machine has.
struct CostField {
  const char* key;
  const char* what;  // "link, bytes per second"
  double CostModel::*member;
  double low, high;  // both allowed
};
const std::vector<CostField>& cost_fields();
inline constexpr std::string_view kTokensPerCore = "tokens_per_core";  // the one that is counted

// ~/.config/tandem/profile.json, below XDG_CONFIG_HOME where that is set; empty without a home.
std::string default_profile_path();
// ~/.cache/tandem, or below XDG_CACHE_HOME; empty without a home. What can be learnt again.
std::string default_costs_folder();

// Refuses, with the reason, what is not a profile of this version: keys missing, figures that are
// no numbers or that no machine has, tables of uneven rows.
Result<Profile> parse_profile(std::string_view json);
Result<Profile> read_profile(const std::filesystem::path& path);
std::string to_json(const Profile& profile);
// Whole or not at all: readers see the old file or the new one. Makes the folder.
Status write_profile(const Profile& profile, const std::filesystem::path& path);

// Whether it holds here; if not, names what differs and how to get one that does.
Status check_profile(const Profile& profile, const ProfileMachine& here, const ProfileModel& model);

}  // namespace tandem
