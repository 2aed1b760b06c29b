// The functions of pattern.h for lengths and for single texts.
#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "engine/constraint/schema/pattern.h"

namespace tandem {
namespace {

using Kind = TextExpression::Kind;

constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 4;

std::int64_t most_of(const Lengths& lengths) {
  return lengths.most < 0 ? kEndless : lengths.most;
}
Lengths lengths_from(std::int64_t least, std::int64_t most) {
  return {std::min(least, kEndless), most >= kEndless ? -1 : most};
}
std::int64_t times(std::int64_t a, std::int64_t b) {
  return a != 0 && b > kEndless / a ? kEndless : a * b;
}

// Splits the texts of an expression by their lengths, alternative by alternative.
class Limiter {
 public:
  std::optional<TextExpression> limit(const TextExpression& each, std::int64_t least,
                                      std::int64_t most) {
    const Lengths own = lengths_of(each);
    least = std::max<std::int64_t>(least, 0);
    if (own.lie_within(lengths_from(least, most))) return each;
    if (own.least > most || most_of(own) < least) return no_text();
    if (++steps_ > kMostSteps) return std::nullopt;
    switch (each.kind) {
      case Kind::choice:
        return limit_choice(each, least, most);
      case Kind::repeat:
        return limit_repeat(each, least, most);
      case Kind::sequence:
        return limit_sequence(each.parts, least, most);
      default:
        return std::nullopt;
    }
  }

 private:
  static constexpr int kMostSteps = 400;
  static constexpr std::int64_t kMostSplits = 64;

  std::optional<TextExpression> limit_choice(const TextExpression& each, std::int64_t least,
                                             std::int64_t most) {
    std::vector<TextExpression> parts;
    for (const TextExpression& part : each.parts) {
      auto limited = limit(part, least, most);
      if (!limited) return std::nullopt;
      parts.push_back(std::move(*limited));
    }
    return any_of(std::move(parts));
  }

  std::optional<TextExpression> limit_repeat(const TextExpression& each, std::int64_t least,
                                             std::int64_t most) {
    const Lengths part = lengths_of(each.parts.front());
    if (part.least != part.most || part.least <= 0) return std::nullopt;
    const std::int64_t length = part.least;
    const std::int64_t fewest = std::max(each.least, (least + length - 1) / length);
    std::int64_t at_most = each.most < 0 ? kEndless : each.most;
    if (most < kEndless) at_most = std::min(at_most, most / length);
    return repeated(each.parts.front(), fewest, at_most >= kEndless ? -1 : at_most);
  }

  std::optional<TextExpression> limit_sequence(const std::vector<TextExpression>& parts,
                                               std::int64_t least, std::int64_t most) {
    const auto varies = [](const TextExpression& part) {
      const Lengths lengths = lengths_of(part);
      return lengths.least != lengths.most;
    };
    const auto at = std::ranges::find_if(parts, varies);
    const std::vector<TextExpression> before(parts.begin(), at);
    const std::vector<TextExpression> after(at + 1, parts.end());
    const Lengths first = lengths_of(in_sequence(before));
    const Lengths rest = lengths_of(in_sequence(after));
    const std::int64_t low = std::max<std::int64_t>(least - first.least, 0);
    const std::int64_t high = most >= kEndless ? kEndless : most - first.least;
    const auto joined = [&](TextExpression here, TextExpression then) {
      std::vector<TextExpression> all = before;
      all.push_back(std::move(here));
      all.push_back(std::move(then));
      return in_sequence(std::move(all));
    };
    if (rest.least == rest.most) {
      auto limited = limit(*at, low - rest.least, high >= kEndless ? kEndless : high - rest.least);
      if (!limited) return std::nullopt;
      return joined(std::move(*limited), in_sequence(after));
    }
    // The texts are split by the length of this part. Above a certain length, if the rest has no
    // bound left, they are handled together.
    const Lengths own = lengths_of(*at);
    std::int64_t last =
        std::min(most_of(own), high >= kEndless ? low - rest.least - 1 : high - rest.least);
    if (last - own.least > kMostSplits) return std::nullopt;
    std::vector<TextExpression> result;
    for (std::int64_t length = own.least; length <= last; ++length) {
      auto here = limit(*at, length, length);
      auto then =
          limit(in_sequence(after), low - length, high >= kEndless ? kEndless : high - length);
      if (!here || !then) return std::nullopt;
      result.push_back(joined(std::move(*here), std::move(*then)));
    }
    if (high >= kEndless) {
      auto here = limit(*at, std::max(last + 1, own.least), kEndless);
      if (!here) return std::nullopt;
      result.push_back(joined(std::move(*here), in_sequence(after)));
    }
    return any_of(std::move(result));
  }

  int steps_ = 0;
};

// Finds the positions at which the texts of an expression can end if they begin at given ones.
class Finder {
 public:
  explicit Finder(std::u32string_view text) : text_(text) {}

  std::set<std::size_t> ends(const TextExpression& each, const std::set<std::size_t>& begins) {
    steps_ += begins.size() + 1;
    std::set<std::size_t> result;
    if (begins.empty() || steps_ > kMostSteps) return result;
    switch (each.kind) {
      case Kind::characters:
        for (const std::size_t at : begins) {
          if (at < text_.size() && each.characters.contains(text_[at])) result.insert(at + 1);
        }
        return result;
      case Kind::text: {
        const std::u32string word = code_points(each.text);
        for (const std::size_t at : begins) {
          if (text_.substr(at).starts_with(word)) result.insert(at + word.size());
        }
        return result;
      }
      case Kind::choice:
        for (const TextExpression& part : each.parts) result.merge(ends(part, begins));
        return result;
      case Kind::sequence: {
        result = begins;
        for (const TextExpression& part : each.parts) result = ends(part, result);
        return result;
      }
      case Kind::repeat:
        return repeat(each, begins);
      default:
        return result;
    }
  }

 private:
  static constexpr std::size_t kMostSteps = 1'000'000;

  std::set<std::size_t> repeat(const TextExpression& each, const std::set<std::size_t>& begins) {
    std::set<std::size_t> here = begins;
    for (std::int64_t i = 0; i < each.least; ++i) {
      std::set<std::size_t> next = ends(each.parts.front(), here);
      if (next == here) break;
      here = std::move(next);
      if (here.empty()) return here;
    }
    std::set<std::size_t> all = here;
    for (std::int64_t i = each.least; each.most < 0 || i < each.most; ++i) {
      here = ends(each.parts.front(), here);
      const std::size_t before = all.size();
      all.insert(here.begin(), here.end());
      if (all.size() == before) break;
    }
    return all;
  }

  std::u32string_view text_;
  std::size_t steps_ = 0;
};

}  // namespace

Lengths lengths_of(const TextExpression& each) {
  switch (each.kind) {
    case Kind::characters:
      return {1, 1};
    case Kind::text: {
      const auto length = static_cast<std::int64_t>(code_points(each.text).size());
      return {length, length};
    }
    case Kind::sequence: {
      std::int64_t least = 0, most = 0;
      for (const TextExpression& part : each.parts) {
        const Lengths lengths = lengths_of(part);
        least = std::min(least + lengths.least, kEndless);
        most = std::min(most + most_of(lengths), kEndless);
      }
      return lengths_from(least, most);
    }
    case Kind::choice: {
      std::int64_t least = kEndless, most = 0;
      for (const TextExpression& part : each.parts) {
        const Lengths lengths = lengths_of(part);
        least = std::min(least, lengths.least);
        most = std::max(most, most_of(lengths));
      }
      return lengths_from(least, most);
    }
    case Kind::repeat: {
      const Lengths lengths = lengths_of(each.parts.front());
      const std::int64_t most =
          each.most < 0 ? (lengths.most == 0 ? 0 : kEndless) : times(most_of(lengths), each.most);
      return lengths_from(times(lengths.least, each.least), most);
    }
    default:
      return {0, 0};
  }
}

std::optional<TextExpression> with_lengths(const TextExpression& each, const Lengths& lengths) {
  return Limiter().limit(each, lengths.least, most_of(lengths));
}

bool is_text_of(const TextExpression& each, std::u32string_view text) {
  return Finder(text).ends(each, {0}).contains(text.size());
}

}  // namespace tandem
