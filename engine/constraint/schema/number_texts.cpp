#include "engine/constraint/schema/number_texts.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tandem {
namespace {

constexpr std::int64_t kMostDigits = 15;  // digits that a double distinguishes
constexpr std::int64_t kMostMultiples = 1000;
constexpr std::int64_t kMostRemainders = 100;

using Integers = std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>>;

TextExpression digits(char first, char last) {
  return one_of(CodeSet({{static_cast<char32_t>(first), static_cast<char32_t>(last)}}));
}
TextExpression any_digits(std::int64_t least, std::int64_t most = -1) {
  return repeated(digits('0', '9'), least, most);
}

// Numbers from `low` to `high`, which have the same number of digits.
TextExpression same_length(const std::string& low, const std::string& high) {
  if (low.empty()) return {};
  const auto rest = static_cast<std::int64_t>(low.size()) - 1;
  const std::string low_rest = low.substr(1), high_rest = high.substr(1);
  if (low[0] == high[0]) {
    return in_sequence({literal(low.substr(0, 1)), same_length(low_rest, high_rest)});
  }
  const std::string zeros(low_rest.size(), '0'), nines(low_rest.size(), '9');
  char first = low[0], last = high[0];
  std::vector<TextExpression> parts;
  if (low_rest != zeros) {
    parts.push_back(in_sequence({literal(low.substr(0, 1)), same_length(low_rest, nines)}));
    ++first;
  }
  std::optional<TextExpression> end;
  if (high_rest != nines) {
    end = in_sequence({literal(high.substr(0, 1)), same_length(zeros, high_rest)});
    --last;
  }
  if (first <= last) parts.push_back(in_sequence({digits(first, last), any_digits(rest, rest)}));
  if (end) parts.push_back(std::move(*end));
  return any_of(std::move(parts));
}

// Integers from `low`, which is not negative, up to `high` if it is set.
TextExpression magnitudes(std::int64_t low, std::optional<std::int64_t> high) {
  if (high && *high < low) return no_text();
  const std::string first = std::to_string(low);
  std::vector<TextExpression> parts;
  const auto last_length = high ? std::to_string(*high).size() : first.size();
  for (std::size_t length = first.size(); length <= last_length; ++length) {
    std::string least = first;
    if (length > first.size()) least.assign(length, '0')[0] = '1';
    const std::string most =
        high && length == last_length ? std::to_string(*high) : std::string(length, '9');
    parts.push_back(same_length(least, most));
  }
  if (!high) {
    parts.push_back(
        in_sequence({digits('1', '9'), any_digits(static_cast<std::int64_t>(first.size()))}));
  }
  return any_of(std::move(parts));
}

TextExpression integers_in(const Integers& range) {
  const auto& [low, high] = range;
  std::vector<TextExpression> parts;
  if (!low || *low < 0) {
    const std::int64_t least = high && *high < 0 ? -*high : 1;
    parts.push_back(in_sequence(
        {literal("-"), low ? magnitudes(least, -*low) : magnitudes(least, std::nullopt)}));
  }
  if (!high || *high >= 0)
    parts.push_back(magnitudes(std::max<std::int64_t>(low.value_or(0), 0), high));
  return any_of(std::move(parts));
}

// Returns the integer part.
Result<std::int64_t> whole_of(const Decimal& number) {
  if (static_cast<std::int64_t>(number.whole.size()) > kMostDigits) {
    return invalid("a bound of more than {} digits: {}", kMostDigits, number.written());
  }
  const std::int64_t value = number.whole.empty() ? 0 : std::stoll(number.whole);
  return number.negative ? -value : value;
}

Result<Integers> integer_bounds(const NumberRange& range) {
  Integers result;
  if (range.least) {
    TANDEM_ASSIGN(std::int64_t low, whole_of(*range.least));
    const bool is_whole = range.least->fraction.empty();
    if (is_whole ? range.above_least : !range.least->negative) ++low;
    result.first = low;
  }
  if (range.most) {
    TANDEM_ASSIGN(std::int64_t high, whole_of(*range.most));
    const bool is_whole = range.most->fraction.empty();
    if (is_whole ? range.below_most : range.most->negative) --high;
    result.second = high;
  }
  return result;
}

// A range for the digits after the point: 0.`text` lies within it.
struct FractionRange {
  std::optional<std::string> low;
  bool above_low = false;
  std::optional<std::string> high;
  bool below_high = false;
};

bool takes_zero(const FractionRange& range) {
  const bool from = !range.low || (range.low->empty() && !range.above_low);
  const bool to = !range.high || !range.high->empty() || !range.below_high;
  return from && to;
}

TextExpression fraction_digits(const FractionRange& range, std::int64_t room, bool may_end) {
  if (!range.low && !range.high) return any_digits(may_end ? 0 : 1, room);
  std::vector<TextExpression> parts;
  if (may_end && takes_zero(range)) parts.emplace_back();
  const auto first_of = [](const std::string& text) { return text.empty() ? '0' : text[0]; };
  const auto rest_of = [](const std::string& text) { return text.empty() ? text : text.substr(1); };
  const char low = range.low ? first_of(*range.low) : '0' - 1;
  const char high = range.high ? first_of(*range.high) : '9' + 1;
  if (room > 0) {
    const auto first = static_cast<char>(low + 1), last = static_cast<char>(high - 1);
    if (first <= last) {
      parts.push_back(in_sequence({digits(first, last), any_digits(0, room - 1)}));
    }
    const auto on_bound = [&](char digit) {
      FractionRange next;
      if (digit == low) next.low = rest_of(*range.low), next.above_low = range.above_low;
      if (digit == high) next.high = rest_of(*range.high), next.below_high = range.below_high;
      if (next.low && next.low->empty() && !next.above_low) next.low.reset();
      parts.push_back(
          in_sequence({literal(std::string(1, digit)), fraction_digits(next, room - 1, true)}));
    };
    if (range.low && low <= high) on_bound(low);
    if (range.high && low < high) on_bound(high);
  }
  return any_of(std::move(parts));
}

// An integer, followed by a fraction.
TextExpression with_fraction(TextExpression whole, const FractionRange& range, std::int64_t room) {
  std::vector<TextExpression> behind;
  if (takes_zero(range)) behind.emplace_back();
  if (room > 0) {
    behind.push_back(in_sequence({literal("."), fraction_digits(range, room, false)}));
  }
  return in_sequence({std::move(whole), any_of(std::move(behind))});
}

// Numbers without a sign; the signs of the bounds are ignored.
Result<TextExpression> decimal_magnitudes(const Decimal& low, bool above_low,
                                          const std::optional<Decimal>& high, bool below_high) {
  TANDEM_ASSIGN(const std::int64_t first, whole_of({false, low.whole, {}}));
  std::int64_t last = 0;
  if (high) {
    TANDEM_ASSIGN(last, whole_of({false, high->whole, {}}));
    if (last < first) return no_text();
  }
  const std::size_t longest = std::max(low.whole.size(), high ? high->whole.size() : 0);
  const std::size_t behind = std::max(low.fraction.size(), high ? high->fraction.size() : 0);
  if (static_cast<std::int64_t>(longest + behind) > kMostDigits) {
    return invalid("a bound of more than {} digits", kMostDigits);
  }
  const std::int64_t room =
      kMostDigits - static_cast<std::int64_t>(std::max<std::size_t>(longest, 1));
  FractionRange from, to;
  if (!low.fraction.empty() || above_low) from.low = low.fraction, from.above_low = above_low;
  if (high) to.high = high->fraction, to.below_high = below_high;
  const auto whole = [](std::int64_t number) { return literal(std::to_string(number)); };
  if (high && first == last) {
    return with_fraction(whole(first), {from.low, from.above_low, to.high, to.below_high}, room);
  }
  std::vector<TextExpression> parts;
  parts.push_back(with_fraction(whole(first), from, room));
  if (!high) {
    parts.push_back(with_fraction(magnitudes(first + 1, std::nullopt), {}, room));
  } else {
    parts.push_back(with_fraction(magnitudes(first + 1, last - 1), {}, room));
    parts.push_back(with_fraction(whole(last), to, room));
  }
  return any_of(std::move(parts));
}

Result<TextExpression> decimals_in(const NumberRange& range) {
  if (!range.least && !range.most) {
    const auto sign = maybe(one_of(CodeSet({{'+', '+'}, {'-', '-'}})));
    return in_sequence(
        {maybe(literal("-")), magnitudes(0, std::nullopt),
         maybe(in_sequence({literal("."), any_digits(1)})),
         // A double needs no more exponent digits.
         maybe(in_sequence({one_of(CodeSet({{'E', 'E'}, {'e', 'e'}})), sign, any_digits(1, 2)}))});
  }
  std::vector<TextExpression> parts;
  const Decimal zero;
  const bool has_negatives = !range.least || range.least->negative;
  const bool has_positives = !range.most || !range.most->negative;
  if (has_negatives) {
    const bool to_negative = range.most && range.most->negative;
    TANDEM_ASSIGN(
        TextExpression magnitude,
        decimal_magnitudes(to_negative ? *range.most : zero, to_negative ? range.below_most : true,
                           range.least, range.above_least));
    parts.push_back(in_sequence({literal("-"), std::move(magnitude)}));
  }
  if (has_positives) {
    const bool from_positive = range.least && !range.least->negative;
    TANDEM_ASSIGN(TextExpression magnitude, decimal_magnitudes(from_positive ? *range.least : zero,
                                                               from_positive && range.above_least,
                                                               range.most, range.below_most));
    parts.push_back(std::move(magnitude));
  }
  return any_of(std::move(parts));
}

// Returns the smallest positive integer that is a multiple of all; nothing if it is too large.
std::optional<std::int64_t> integer_step(const std::vector<Decimal>& of) {
  std::int64_t step = 1;
  for (const Decimal& each : of) {
    if (each.whole.size() + each.fraction.size() > 9) return std::nullopt;
    std::int64_t scale = 1;
    for (std::size_t i = 0; i < each.fraction.size(); ++i) scale *= 10;
    const std::int64_t scaled = std::stoll(each.whole + each.fraction);
    const std::int64_t whole = scaled / std::gcd(scaled, scale);
    step = step / std::gcd(step, whole) * whole;
    if (step > 1'000'000'000) return std::nullopt;
  }
  return step;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// Positive multiples of `step`, with one rule for each remainder of the digits read so far.
TextExpression multiples(std::int64_t step, GrammarRules& rules) {
  std::vector<std::int32_t> by_remainder;
  for (std::int64_t i = 0; i < step; ++i) by_remainder.push_back(rules.add());
  const auto next = [&](std::int64_t remainder, char first) {
    std::vector<TextExpression> parts;
    for (char digit = first; digit <= '9'; ++digit) {
      const std::int64_t then = (remainder * 10 + (digit - '0')) % step;
      parts.push_back(in_sequence(
          {literal(std::string(1, digit)), by_rule(by_remainder[static_cast<std::size_t>(then)])}));
    }
    return parts;
  };
  for (std::int64_t i = 0; i < step; ++i) {
    std::vector<TextExpression> parts = next(i, '0');
    if (i == 0) parts.emplace_back();
    rules.define(by_remainder[static_cast<std::size_t>(i)], any_of(std::move(parts)));
  }
  return any_of(next(0, '1'));
}

Result<TextExpression> integer_multiples(const Integers& range, std::int64_t step,
                                         GrammarRules& rules) {
  const auto& [low, high] = range;
  if (low && high) {
    const std::int64_t first = floor_divide(*low + step - 1, step);
    const std::int64_t last = floor_divide(*high, step);
    if (last - first < kMostMultiples) {
      std::vector<TextExpression> parts;
      for (std::int64_t i = first; i <= last; ++i)
        parts.push_back(literal(std::to_string(i * step)));
      return any_of(std::move(parts));
    }
  }
  const bool all_negative = !low, all_positive = !high;
  const bool starts_at_zero = low && *low > -step && *low <= step;
  const bool ends_at_zero = high && *high < step && *high >= -step;
  if (step > kMostRemainders || (!all_negative && !starts_at_zero) ||
      (!all_positive && !ends_at_zero)) {
    return invalid(
        "multipleOf {} in these bounds is not supported: at most {} multiples between "
        "two bounds, or at most {} without",
        step, kMostMultiples, kMostRemainders);
  }
  std::vector<TextExpression> parts;
  const bool zero = (!low || *low <= 0) && (!high || *high >= 0);
  if (zero) parts.push_back(literal("0"));
  const std::int32_t above_zero = rules.add();
  rules.define(above_zero, multiples(step, rules));
  if (all_positive) parts.push_back(by_rule(above_zero));
  if (all_negative) parts.push_back(in_sequence({literal("-"), by_rule(above_zero)}));
  return any_of(std::move(parts));
}

}  // namespace

std::optional<Decimal> Decimal::of(const nlohmann::ordered_json& number) {
  constexpr int kMostPlaces = 60;
  const std::string text = number.dump();
  Decimal result;
  std::string digits;
  std::int64_t point = -1;
  std::size_t i = 0;
  if (text[0] == '-') ++i, result.negative = true;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      point = static_cast<std::int64_t>(digits.size());
    } else {
      digits += text[i];
    }
  }
  if (point < 0) point = static_cast<std::int64_t>(digits.size());
  if (i < text.size()) point += std::stoll(text.substr(i + 1));
  if (point < -kMostPlaces || point > kMostPlaces) return std::nullopt;
  if (point < 0) digits.insert(0, static_cast<std::size_t>(-point), '0'), point = 0;
  if (point > static_cast<std::int64_t>(digits.size())) {
    digits.append(static_cast<std::size_t>(point) - digits.size(), '0');
  }
  result.whole = digits.substr(0, static_cast<std::size_t>(point));
  result.fraction = digits.substr(static_cast<std::size_t>(point));
  result.whole.erase(0, result.whole.find_first_not_of('0'));
  result.fraction.erase(result.fraction.find_last_not_of('0') + 1);
  if (result.is_zero()) result.negative = false;
  return result;
}

std::string Decimal::written() const {
  return (negative ? "-" : "") + (whole.empty() ? "0" : whole) +
         (fraction.empty() ? "" : "." + fraction);
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int result = 0;
  if (a.whole.size() != b.whole.size()) {
    result = a.whole.size() < b.whole.size() ? -1 : 1;
  } else if (a.whole != b.whole) {
    result = a.whole < b.whole ? -1 : 1;
  } else if (a.fraction != b.fraction) {
    result = a.fraction < b.fraction ? -1 : 1;
  }
  return a.negative ? -result : result;
}

void NumberRange::raise_least(const Decimal& bound, bool above) {
  const int order = least ? compare(bound, *least) : 1;
  if (order > 0 || (order == 0 && above)) least = bound, above_least = above;
}

void NumberRange::lower_most(const Decimal& bound, bool below) {
  const int order = most ? compare(bound, *most) : -1;
  if (order < 0 || (order == 0 && below)) most = bound, below_most = below;
}

bool NumberRange::contains(const Decimal& number) const {
  const int low = least ? compare(number, *least) : 1;
  const int high = most ? compare(number, *most) : -1;
  return (low > 0 || (low == 0 && !above_least)) && (high < 0 || (high == 0 && !below_most));
}

bool NumberRange::is_apart_from(const NumberRange& other) const {
  const auto before = [](const NumberRange& a, const NumberRange& b) {
    if (!a.most || !b.least) return false;
    const int order = compare(*a.most, *b.least);
    return order < 0 || (order == 0 && (a.below_most || b.above_least));
  };
  return before(*this, other) || before(other, *this);
}

bool is_multiple(const Decimal& number, const Decimal& of) {
  const std::size_t places = std::max(number.fraction.size(), of.fraction.size());
  const auto scaled = [&](const Decimal& each) -> std::optional<std::int64_t> {
    const std::string digits =
        each.whole + each.fraction + std::string(places - each.fraction.size(), '0');
    if (digits.size() > 18) return std::nullopt;
    return digits.empty() ? 0 : std::stoll(digits);
  };
  const auto a = scaled(number), b = scaled(of);
  return a && b && *b != 0 && *a % *b == 0;
}

Result<TextExpression> numbers_in(const NumberRange& range, const std::vector<Decimal>& of,
                                  bool integers, GrammarRules& rules) {
  if (range.least && range.most) {
    const int order = compare(*range.least, *range.most);
    if (order > 0 || (order == 0 && (range.above_least || range.below_most))) return no_text();
  }
  if (of.empty() && !integers) return decimals_in(range);
  TANDEM_ASSIGN(const Integers bounds, integer_bounds(range));
  if (of.empty()) return integers_in(bounds);
  // For multiples of 0.5, for example, only integers are generated. They are multiples in every
  // implementation, whereas 19.99 is not one of 0.01 in floating-point arithmetic.
  const auto step = integer_step(of);
  if (!step) return invalid("multipleOf of more than 9 digits is not supported");
  if (*step == 1) return integers_in(bounds);
  return integer_multiples(bounds, *step, rules);
}

}  // namespace tandem
