#include "tools/profile/fit/cost_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tandem {

std::string label_of(const CostField& field) {
  const std::string what = field.what;
  return what.substr(0, std::min({what.rfind(", bytes/s"), what.rfind(", FLOP/s"),
                                  what.rfind(", s"), what.size()}));
}

std::string cost_text(const CostField& field, double value) {
  const std::string_view what = field.what;
  if (what.ends_with("bytes/s")) return fmt::format("{:.1f} GB/s", value / 1e9);
  if (what.ends_with("FLOP/s")) return fmt::format("{:.2f} TFLOP/s", value / 1e12);
  if (!what.ends_with(", s")) return fmt::format("{:.3f}", value);
  if (value != 0 && value < 1e-7) return fmt::format("{:.4f} ns", value * 1e9);
  return value < 1e-3 ? fmt::format("{:.2f} us", value * 1e6)
                      : fmt::format("{:.2f} ms", value * 1e3);
}

std::string spread_text(const FigureSpread* figure) {
  if (figure == nullptr) return {};
  const double percent = std::min(figure->spread, 9.99) * 100;
  return fmt::format("+-{:.{}f} %{}", percent, percent < 9.95 ? 1 : 0, figure->certain ? "" : " ?");
}

std::string uncertain_text(const Profile& profile) {
  std::string text;
  const auto add = [&](std::string_view key, const std::string& label) {
    const FigureSpread* figure = profile.figure(key);
    if (figure == nullptr || figure->certain) return;
    text += fmt::format("  {}: {}\n", label, figure->why);
  };
  for (const CostField& field : cost_fields()) add(field.key, label_of(field));
  add(kTokensPerCore, "tokens per core");
  if (text.empty()) return {};
  text =
      "\nuncertain, marked with ? (serve calibrates at its start, as without a profile)\n" + text;
  text += fmt::format("  meanwhile {}\n",
                      profile.others.empty() ? "nobody else was seen to be busy" : profile.others);
  return text;
}

}  // namespace tandem
