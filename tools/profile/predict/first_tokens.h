// Predicted seconds to the first token of cold adapters by number of cores: the gain from cores on
// a machine, and the number beyond which more cores gain nothing. Pure functions of a profile.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/profile/profile.h"
#include "tools/profile/predict/profile_map.h"

namespace tandem {

inline constexpr std::int32_t kBudgetRank = 64;  // rank of the adapters in budgets

// Seconds to the first token of a request whose step begins together with its adapter's load: the
// engine's planner predicts it from the measured layer times for this number of rows; request_s()
// is added.
double first_token_s(const Profile& profile, const PlanQuestion& question);

// The knee is the fewest cores within this share of the best time.
inline constexpr double kKneeShare = 0.05;

// first_token_s() by the number of cores, from none to all that the profile plans with.
struct CoreCurve {
  PlanQuestion question;  // without its cores
  // rising; every number while there are few, and half of all and all.
  std::vector<std::int32_t> cores;
  std::vector<double> seconds;  // with the same index
  std::size_t knee = 0;         // with the same index

  double seconds_of(std::int32_t count) const;  // `count` is one of `cores`
};
CoreCurve core_curve(const Profile& profile, const PlanQuestion& question);
std::size_t find_knee(const std::vector<double>& seconds);

// The curves of one plot: several prompt lengths for adapters of one rank, `cold` of them at once.
inline constexpr std::array<std::int32_t, 5> kCurveRows = {8, 32, 64, 128, 256};
std::vector<CoreCurve> core_curves(const Profile& profile, std::int32_t rank, std::int32_t cold);

// The budget as text: "12 cores: a 64-token prompt of a cold rank-64 adapter starts in 8.1 ms; 6 of
// them: 9.7 ms; none: 20.1 ms." followed by the number of useful cores.
std::string budget_words(const CoreCurve& curve);

// Measured seconds to the first token (medians) and their prediction: a row of the profile's table
// "first_token".
struct FirstToken {
  std::int32_t workers = 0;
  std::int32_t rank = 0;
  std::int32_t rows = 0;
  double predicted_s = 0;
  double seconds = 0;     // for a cold adapter
  double resident_s = 0;  // for the same adapter while it is on the device

  double error() const { return predicted_s / seconds - 1; }  // relative: 0.05
};
double middle_of(std::vector<double> values);  // the median; requires a value
inline constexpr const char* kFirstTokenTable = "first_token";
void add_first_token(const FirstToken& token, ProfileTable& table);
ProfileTable first_token_table();
// Reads a profile that may come from elsewhere: invalid rows are left out.
std::vector<FirstToken> measured_first_tokens(const Profile& profile);
// The time of a request with this many rows beyond its step and independent of its adapter's
// loading, from requests for resident adapters: the engine's own part and the adapter's products.
// Below 0 if an engine's steps were faster than those measured alone; 0 if none were measured.
double request_s(const Profile& profile, const std::vector<FirstToken>& tokens, std::int32_t rows);

}  // namespace tandem
