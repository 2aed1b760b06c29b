// Seconds to the first token of cold adapters by cores, by prediction: what cores buy on a machine,
// and from which number on more of them buy nothing. Pure functions of a profile.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/profile/profile.h"
#include "tools/profile/profile_map.h"

namespace tandem {

inline constexpr std::int32_t kBudgetRank = 64;  // of the adapters that budgets speak of

// Of a request whose step begins when its adapter's load does: as the engine's own planner sees it,
// in a step whose layers take what steps of so many rows were measured to take, and request_s().
double first_token_s(const Profile& profile, const PlanQuestion& question);

// Where more cores stop paying: the fewest that are within this share of the best.
inline constexpr double kKneeShare = 0.05;

// The same by the number of cores, from none to all that the profile plans with.
struct CoreCurve {
  PlanQuestion question;            // but for its cores
  std::vector<std::int32_t> cores;  // rising; all numbers while they are few, half of all and all
  std::vector<double> seconds;      // by the same index
  std::size_t knee = 0;             // an index, too

  double seconds_of(std::int32_t count) const;  // one of `cores`
};
CoreCurve core_curve(const Profile& profile, const PlanQuestion& question);
std::size_t find_knee(const std::vector<double>& seconds);

// One plot's: prompts of several lengths, for adapters of one rank, so many of which come at once.
inline constexpr std::array<std::int32_t, 5> kCurveRows = {8, 32, 64, 128, 256};
std::vector<CoreCurve> core_curves(const Profile& profile, std::int32_t rank, std::int32_t cold);

// The budget in words: "12 cores: a 64-token prompt of a cold rank-64 adapter starts in 8.1 ms; 6
// of them: 9.7 ms; none: 20.1 ms." and how many of them pay.
std::string budget_words(const CoreCurve& curve);

// A first token as it was measured, medians, beside what had been predicted: a row of the profile's
// table "first_token".
struct FirstToken {
  std::int32_t workers = 0;
  std::int32_t rank = 0;
  std::int32_t rows = 0;
  double predicted_s = 0;
  double seconds = 0;     // of a cold adapter
  double resident_s = 0;  // of the same one when the device had it

  double error() const { return predicted_s / seconds - 1; }  // share: 0.05
};
double middle_of(std::vector<double> values);  // the median; of one at least
inline constexpr const char* kFirstTokenTable = "first_token";
void add_first_token(const FirstToken& token, ProfileTable& table);
ProfileTable first_token_table();
// Of a stranger's profile: rows that make no sense are left out.
std::vector<FirstToken> measured_first_tokens(const Profile& profile);
// What a request of so many rows takes beyond its step, whatever its adapter waits for, as requests
// for resident ones were seen to: the engine's own part, and the adapter's products. Below 0 where
// an engine's steps were quicker than those that were measured alone; 0 where none were measured.
double request_s(const Profile& profile, const std::vector<FirstToken>& tokens, std::int32_t rows);

}  // namespace tandem
