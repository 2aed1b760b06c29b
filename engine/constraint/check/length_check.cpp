#include "engine/constraint/check/length_check.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostOfOne = 250;
constexpr std::string_view kLengths[] = {"minLength", "maxLength", "minItems", "maxItems"};

// Adds up the numbers after certain member names, at any place in the JSON.
class LengthSax final : public nlohmann::json_sax<json> {
 public:
  std::int64_t together() const { return together_; }

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool start_object(std::size_t) override { return other(); }
  bool key(string_t& name) override {
    const auto* const at = std::find(std::begin(kLengths), std::end(kLengths), name);
    name_ = at != std::end(kLengths) ? *at : std::string_view();
    return true;
  }
  bool end_object() override { return other(); }
  bool start_array(std::size_t) override { return other(); }
  bool end_array() override { return other(); }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  bool number(double value) {
    const auto length = static_cast<std::int64_t>(std::clamp(value, 0.0, 1e15));
    if (!name_.empty() && seen_.emplace(name_, length).second) {
      together_ += std::min(length, kMostOfOne);
    }
    return other();
  }
  bool other() {
    name_ = {};
    return true;
  }

  std::string_view name_;  // of the next value's member; empty: not one of these
  std::set<std::pair<std::string_view, std::int64_t>> seen_;
  std::int64_t together_ = 0;
};

}  // namespace

Status check_lengths(std::string_view text, std::int64_t most) {
  LengthSax sax;
  (void)json::sax_parse(text, &sax);
  if (sax.together() <= most) return {};
  return invalid(
      "its different lengths (minLength, maxLength, minItems, maxItems) add up to {}, each counted "
      "up to {}, more than the {} allowed: use fewer different ones",
      sax.together(), kMostOfOne, most);
}

}  // namespace tandem
