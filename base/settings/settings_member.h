// A SettingsMember binds a row of a SettingsTable to a struct member of any type.
//
// Files, flags and help know five types. A member of another type is represented by a copy of one
// of these, which SettingsTable::validate() converts after checking its range, and only if a value
// was given: a default is never rounded.
//
//   std::int32_t rows;  table.add(o.rows, "rows", "...")            a whole number
//   Duration patience;  table.add(o.patience, "patience_s", "...")  seconds
//   double pause_s;     table.add(in_ms(o.pause_s), "pause_ms", "...")
//   Mode mode;          table.add(by_name(o.mode, kModes), "mode", "...")
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"

namespace tandem {

struct SettingsMember {
  using Target =
      std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<std::string>*>;

  template <typename T>
  SettingsMember(T& member) {  // NOLINT(google-explicit-constructor): a row takes any member
    if constexpr (std::is_constructible_v<Target, T*>) {
      target = &member;
    } else if constexpr (std::same_as<T, Duration>) {
      *this = SettingsMember(std::chrono::duration<double>(member).count(),
                             [&member](double seconds) { member = duration_of(seconds); });
      meta = "SECONDS";
    } else {
      static_assert(std::integral<T>);
      *this = SettingsMember(static_cast<std::int64_t>(member),
                             [&member](std::int64_t value) { member = static_cast<T>(value); });
    }
  }
  // `value` is the default; `take` receives the given value.
  template <typename Value, typename Take>
  SettingsMember(Value value, Take take) {
    auto copy = std::make_shared<Value>(std::move(value));
    target = copy.get();
    store = [copy, take] { take(*copy); };
  }

  Target target;
  std::function<void()> store;       // empty: the target is the member
  std::vector<std::string> choices;  // empty: any
  std::string meta;                  // the unit in the help; empty: a name suited to the type
};

// The member equals the setting, a Value, times `times / over`.
template <typename Value = double, typename T>
SettingsMember in_units(const char* unit, T& member, double times, double over) {
  SettingsMember made(static_cast<Value>(static_cast<double>(member) / times * over),
                      [&member, times, over](Value value) {
                        member = static_cast<T>(static_cast<double>(value) * times / over);
                      });
  made.meta = unit;
  return made;
}
// For a member in seconds.
template <typename T>
SettingsMember in_ms(T& member) {
  return in_units("MS", member, 1, 1e3);
}
// For members in bytes.
template <typename Value = double, typename T>
SettingsMember in_mb(T& member) {
  return in_units<Value>("MB", member, 1 << 20, 1);
}
template <typename T>
SettingsMember in_gb(T& member) {
  return in_units("GB", member, 1e9, 1);
}

// For an enum, given by the to_string() name of each value in `all`, which outlives the table.
template <typename Enum, typename All>
SettingsMember by_name(Enum& member, const All& all) {
  SettingsMember made(std::string(to_string(member)), [&member, &all](const std::string& name) {
    for (const Enum each : all) {
      if (name == to_string(each)) member = each;
    }
  });
  for (const Enum each : all) made.choices.emplace_back(to_string(each));
  return made;
}

}  // namespace tandem
