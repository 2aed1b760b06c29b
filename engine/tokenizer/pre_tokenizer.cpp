#include "engine/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "engine/tokenizer/json_fields.h"
#include "engine/tokenizer/normalizer.h"

namespace tandem {
namespace {

// GPT-2's pattern, the default of ByteLevel.
constexpr std::string_view kGpt2Pattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Part {
  TextRange span;
  bool is_match;
};

// The behaviours that merge neighbouring parts. Each appends to `merged` or extends its last range.
std::vector<TextRange> merge_contiguous(const std::vector<Part>& parts) {
  std::vector<TextRange> merged;
  bool previous = false;
  for (const Part& part : parts) {
    if (part.is_match == previous && !merged.empty()) {
      merged.back().end = part.span.end;
    } else {
      merged.push_back(part.span);
    }
    previous = part.is_match;
  }
  return merged;
}

std::vector<TextRange> merge_with_previous(const std::vector<Part>& parts) {
  std::vector<TextRange> merged;
  bool previous = false;
  for (const Part& part : parts) {
    if (part.is_match && !previous && !merged.empty()) {
      merged.back().end = part.span.end;
    } else {
      merged.push_back(part.span);
    }
    previous = part.is_match;
  }
  return merged;
}

std::vector<TextRange> merge_with_next(const std::vector<Part>& parts) {
  std::vector<TextRange> merged;
  bool previous = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->is_match && !previous && !merged.empty()) {
      merged.back().begin = part->span.begin;
    } else {
      merged.push_back(part->span);
    }
    previous = part->is_match;
  }
  std::reverse(merged.begin(), merged.end());
  return merged;
}

}  // namespace

Result<PreTokenizer> PreTokenizer::parse(const nlohmann::json& spec) {
  PreTokenizer result;
  if (!spec.is_null()) TANDEM_TRY(result.parse_into(spec, "pre_tokenizer", 0));
  return result;
}

Status PreTokenizer::parse_into(const nlohmann::json& spec, const std::string& path, int depth) {
  if (depth > kMaxSequenceDepth) return invalid("{}: sequences nested too deeply", path);
  TANDEM_ASSIGN(Fields fields, Fields::of(spec, path));
  TANDEM_ASSIGN(const std::string type, fields.string("type"));
  if (type == "Sequence") {
    TANDEM_ASSIGN(const nlohmann::json* items, fields.array("pretokenizers"));
    for (std::size_t i = 0; i < items->size(); ++i)
      TANDEM_TRY(parse_into((*items)[i], fmt::format("{}.pretokenizers[{}]", path, i), depth + 1));
    return {};
  }
  if (byte_level_) return invalid("{}: \"{}\" after ByteLevel is not supported", path, type);
  Result<Step> step = invalid("{}: pre-tokenizer \"{}\" is not supported", path, type);
  if (type == "Split") step = parse_split(fields);
  if (type == "Digits") step = parse_digits(fields);
  if (type == "Metaspace") step = parse_metaspace(fields);
  if (type == "ByteLevel") step = parse_byte_level(fields);
  if (!step) return step.status();
  byte_level_ = step->kind == Kind::byte_level;
  constexpr std::size_t kMaxSteps = 32;  // a limit, because running them is recursive
  if (steps_.size() >= kMaxSteps) return invalid("{}: more than {} steps", path, kMaxSteps);
  steps_.push_back(std::move(*step));
  return {};
}

Result<PreTokenizer::Step> PreTokenizer::parse_split(const Fields& fields) {
  Step step{};
  step.kind = Kind::split;
  const nlohmann::json* pattern = fields.find("pattern");
  if (pattern == nullptr) return invalid("{}.pattern is missing", fields.path());
  TANDEM_ASSIGN(Regex regex, parse_pattern(*pattern, fields.path_of("pattern")));
  step.pattern.push_back(std::move(regex));
  TANDEM_ASSIGN(step.invert, fields.boolean("invert", false));
  TANDEM_ASSIGN(const std::string behavior, fields.string("behavior"));
  if (behavior == "Isolated") {
    step.behavior = Behavior::isolated;
  } else if (behavior == "Removed") {
    step.behavior = Behavior::removed;
  } else if (behavior == "MergedWithPrevious") {
    step.behavior = Behavior::merged_with_previous;
  } else if (behavior == "MergedWithNext") {
    step.behavior = Behavior::merged_with_next;
  } else if (behavior == "Contiguous") {
    step.behavior = Behavior::contiguous;
  } else {
    return invalid("{}: behavior \"{}\" is not supported", fields.path(), behavior);
  }
  return step;
}

Result<PreTokenizer::Step> PreTokenizer::parse_digits(const Fields& fields) {
  Step step{};
  step.kind = Kind::digits;
  TANDEM_ASSIGN(const bool individual, fields.boolean("individual_digits", false));
  TANDEM_ASSIGN(Regex regex, Regex::compile("\\p{N}"));
  step.pattern.push_back(std::move(regex));
  step.behavior = individual ? Behavior::isolated : Behavior::contiguous;
  return step;
}

Result<PreTokenizer::Step> PreTokenizer::parse_metaspace(const Fields& fields) {
  Step step{};
  step.kind = Kind::metaspace;
  TANDEM_ASSIGN(step.replacement, fields.string("replacement"));
  if (step.replacement.empty()) return invalid("{}.replacement is empty", fields.path());
  // Files from before prepend_scheme was introduced have add_prefix_space.
  TANDEM_ASSIGN(const bool add_prefix_space, fields.boolean("add_prefix_space", true));
  std::string scheme = add_prefix_space ? "always" : "never";
  if (fields.find("prepend_scheme") != nullptr) {
    TANDEM_ASSIGN(scheme, fields.string("prepend_scheme"));
  }
  if (scheme == "always") {
    step.prepend = Prepend::always;
  } else if (scheme == "first") {
    step.prepend = Prepend::first;
  } else if (scheme != "never") {
    return invalid("{}: prepend_scheme \"{}\" is not supported", fields.path(), scheme);
  }
  TANDEM_ASSIGN(const bool split, fields.boolean("split", true));
  if (split) {
    TANDEM_ASSIGN(Regex regex, Regex::literal(step.replacement));
    step.pattern.push_back(std::move(regex));
    step.behavior = Behavior::merged_with_next;
  }
  return step;
}

Result<PreTokenizer::Step> PreTokenizer::parse_byte_level(const Fields& fields) {
  Step step{};
  step.kind = Kind::byte_level;
  TANDEM_ASSIGN(const bool add_prefix_space, fields.boolean("add_prefix_space", true));
  if (add_prefix_space) step.prepend = Prepend::always;
  TANDEM_ASSIGN(const bool use_regex, fields.boolean("use_regex", true));
  if (use_regex) {
    TANDEM_ASSIGN(Regex regex, Regex::compile(kGpt2Pattern));
    step.pattern.push_back(std::move(regex));
  }
  return step;
}

Status PreTokenizer::run_from(std::size_t index, std::string_view text, bool at_start,
                              const Sink& sink) const {
  if (text.empty()) return {};
  if (index == steps_.size()) {
    sink(text);
    return {};
  }
  const Step& step = steps_[index];
  if (step.kind == Kind::byte_level && step.prepend == Prepend::always && !text.starts_with(' '))
    return split(step, index, fmt::format(" {}", text), at_start, sink);
  if (step.kind != Kind::metaspace) return split(step, index, text, at_start, sink);

  std::string replaced;
  replaced.reserve(text.size() + step.replacement.size());
  for (const char c : text) {
    if (c == ' ') {
      replaced += step.replacement;
    } else {
      replaced += c;
    }
  }
  const bool prepend =
      step.prepend == Prepend::always || (step.prepend == Prepend::first && at_start);
  if (prepend && !replaced.starts_with(step.replacement)) replaced.insert(0, step.replacement);
  return split(step, index, replaced, at_start, sink);
}

Status PreTokenizer::split(const Step& step, std::size_t index, std::string_view text,
                           bool at_start, const Sink& sink) const {
  if (step.pattern.empty()) return run_from(index + 1, text, at_start, sink);
  auto hand_on = [&](TextRange span) {
    return run_from(index + 1, text.substr(span.begin, span.end - span.begin),
                    at_start && span.begin == 0, sink);
  };
  const Regex& pattern = step.pattern.front();
  if (step.behavior == Behavior::isolated)
    return pattern.split(text, [&](TextRange span, bool) { return hand_on(span); });
  if (step.behavior == Behavior::removed)
    return pattern.split(text, [&](TextRange span, bool is_match) {
      return is_match == step.invert ? hand_on(span) : Status();
    });

  std::vector<Part> parts;
  TANDEM_TRY(pattern.split(text, [&](TextRange span, bool is_match) {
    parts.push_back({span, is_match != step.invert});
    return Status();
  }));
  const std::vector<TextRange> words =
      step.behavior == Behavior::contiguous             ? merge_contiguous(parts)
      : step.behavior == Behavior::merged_with_previous ? merge_with_previous(parts)
                                                        : merge_with_next(parts);
  for (const TextRange& word : words) TANDEM_TRY(hand_on(word));
  return {};
}

}  // namespace tandem
