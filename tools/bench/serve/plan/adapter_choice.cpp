#include "tools/bench/serve/plan/adapter_choice.h"

#include <algorithm>
#include <numeric>

#include "base/parse_number.h"
#include "base/settings/settings.h"
#include "scheduler/cluster/simulator/popularity.h"

namespace tandem {
namespace {

Result<std::vector<std::int32_t>> choose_by_mix(const NamedNumbers& mix,
                                                const std::vector<std::string>& names,
                                                std::int64_t count, std::mt19937_64& random) {
  std::vector<double> weights;
  std::vector<std::int32_t> numbers;
  for (const auto& [name, share] : mix) {
    TANDEM_ASSIGN(const std::int32_t number, lora_number(name, names));
    numbers.push_back(number);
    weights.push_back(share);
  }
  const WeightedChoice choice(weights);
  std::vector<std::int32_t> chosen;
  for (std::int64_t i = 0; i < count; ++i) chosen.push_back(numbers[choice.draw(random)]);
  return chosen;
}

}  // namespace

Result<NamedNumbers> parse_named_numbers(const std::string& setting,
                                         const std::vector<std::string>& texts) {
  NamedNumbers numbers;
  for (const std::string& text : texts) {
    const std::size_t equals = text.rfind('=');
    const std::string name = text.substr(0, equals);
    const double value =
        equals == std::string::npos ? 0 : parse_number<double>(text.substr(equals + 1)).value_or(0);
    if (name.empty() || !(value > 0)) {
      return invalid("{}: '{}' is not NAME=NUMBER with a number above 0", setting, text);
    }
    const bool twice =
        std::ranges::any_of(numbers, [&](const auto& one) { return one.first == name; });
    if (twice) return invalid("{}: '{}' is named twice", setting, name);
    numbers.emplace_back(name, value);
  }
  return numbers;
}

Result<std::int32_t> lora_number(const std::string& name, const std::vector<std::string>& names) {
  if (name == "base") return kBaseModel;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::int32_t>(found - names.begin());
  const std::string close = nearest(name, names);
  return invalid("'{}' is none of --lora-modules{}; \"base\" is the base model", name,
                 close.empty() ? "" : fmt::format("; did you mean '{}'?", close));
}

Result<std::vector<std::int32_t>> choose_adapters(const AdapterChoiceOptions& options,
                                                  const std::vector<std::string>& names,
                                                  std::int64_t count, std::mt19937_64& random) {
  if (!options.mix.empty()) return choose_by_mix(options.mix, names, count, random);
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(count), kBaseModel);
  if (names.empty()) return chosen;
  const auto size = std::ssize(names);
  if (options.assignment == "round-robin") {
    for (std::int64_t i = 0; i < count; ++i) {
      chosen[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i % size);
    }
    return chosen;
  }
  if (options.distribution == "distinct") {
    if (count > size) {
      return invalid(
          "{} requests cannot have an adapter each of {}; give fewer --num-prompts, or "
          "--lora-assignment round-robin",
          count, size);
    }
    std::vector<std::int32_t> order(names.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::copy_n(order.begin(), count, chosen.begin());
    return chosen;
  }
  const std::string kind = options.distribution == "skewed" ? "zipf" : options.distribution;
  TANDEM_ASSIGN(const auto weights, popularity_weights(kind, size, options.zipf_alpha));
  const WeightedChoice choice(weights);
  for (std::int32_t& adapter : chosen) adapter = static_cast<std::int32_t>(choice.draw(random));
  return chosen;
}

}  // namespace tandem
