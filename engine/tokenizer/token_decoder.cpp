#include "engine/tokenizer/token_decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/tokenizer/byte_level.h"
#include "engine/tokenizer/json_fields.h"
#include "engine/tokenizer/normalizer.h"

namespace tandem {
namespace {

// Returns the byte of a token of the form <0xNN>.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  const int high = digit(token[3]);
  const int low = digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

std::string_view strip_token(std::string_view token, std::string_view c, std::size_t start,
                             std::size_t stop) {
  while (start-- > 0 && token.starts_with(c)) token.remove_prefix(c.size());
  while (stop-- > 0 && token.ends_with(c)) token.remove_suffix(c.size());
  return token;
}

// Replaces Metaspace's marks by spaces, or drops them.
std::string without_marks(std::string_view token, std::string_view mark, bool drop) {
  std::string spaced;
  for (std::size_t pos = 0; pos < token.size();) {
    const bool is_mark = token.substr(pos).starts_with(mark);
    if (!is_mark) {
      spaced += token[pos];
    } else if (!drop) {
      spaced += ' ';
    }
    pos += is_mark ? mark.size() : 1;
  }
  return spaced;
}

}  // namespace

Result<TokenDecoder> TokenDecoder::parse(const nlohmann::json& spec) {
  TokenDecoder result;
  if (spec.is_null()) {
    result.join_with_space_ = true;
  } else {
    TANDEM_TRY(result.parse_into(spec, "decoder", 0));
  }
  return result;
}

Status TokenDecoder::parse_into(const nlohmann::json& spec, const std::string& path, int depth) {
  if (depth > kMaxSequenceDepth) return invalid("{}: sequences nested too deeply", path);
  TANDEM_ASSIGN(Fields fields, Fields::of(spec, path));
  TANDEM_ASSIGN(const std::string type, fields.string("type"));
  if (type == "Sequence") {
    TANDEM_ASSIGN(const nlohmann::json* items, fields.array("decoders"));
    for (std::size_t i = 0; i < items->size(); ++i)
      TANDEM_TRY(parse_into((*items)[i], fmt::format("{}.decoders[{}]", path, i), depth + 1));
    return {};
  }
  if (type == "Fuse") {
    fused_ = true;
    return {};
  }
  if (type == "ByteLevel") {
    if (fused_ || !token_steps_.empty())
      return invalid("{}: ByteLevel after another decoder is not supported", path);
    byte_level_ = fused_ = true;
    return {};
  }
  TANDEM_ASSIGN(Step step, parse_step(fields, type));
  if (fused_ && step.kind != Kind::strip)
    return invalid("{}: {} after Fuse or ByteLevel is not supported", path, type);
  constexpr std::size_t kMaxSteps = 32;  // a limit, because running them is recursive
  std::vector<Step>& steps = fused_ ? text_steps_ : token_steps_;
  if (steps.size() >= kMaxSteps) return invalid("{}: more than {} steps", path, kMaxSteps);
  steps.push_back(std::move(step));
  return {};
}

Result<TokenDecoder::Step> TokenDecoder::parse_step(const Fields& fields,
                                                    const std::string& type) const {
  Step step{};
  if (type == "Replace") {
    step.kind = Kind::replace;
    TANDEM_ASSIGN(step.text, fields.string("content"));
    const nlohmann::json* pattern = fields.find("pattern");
    if (pattern == nullptr) return invalid("{}.pattern is missing", fields.path());
    TANDEM_ASSIGN(Regex regex, parse_pattern(*pattern, fields.path_of("pattern")));
    step.pattern.push_back(std::move(regex));
  } else if (type == "ByteFallback") {
    step.kind = Kind::byte_fallback;
  } else if (type == "Metaspace") {
    step.kind = Kind::metaspace;
    TANDEM_ASSIGN(step.text, fields.string("replacement"));
    TANDEM_ASSIGN(const bool add_prefix_space, fields.boolean("add_prefix_space", true));
    std::string scheme = add_prefix_space ? "always" : "never";
    if (fields.find("prepend_scheme") != nullptr) {
      TANDEM_ASSIGN(scheme, fields.string("prepend_scheme"));
    }
    step.drop_first = scheme != "never";
  } else if (type == "Strip") {
    step.kind = Kind::strip;
    TANDEM_ASSIGN(step.text, fields.string("content"));
    constexpr std::int64_t kMaxStrip = 1 << 20;
    TANDEM_ASSIGN(const std::int64_t start, fields.integer("start", kMaxStrip));
    TANDEM_ASSIGN(const std::int64_t stop, fields.integer("stop", kMaxStrip));
    step.start = static_cast<std::size_t>(start);
    step.stop = static_cast<std::size_t>(stop);
  } else {
    return invalid("{}: decoder \"{}\" is not supported", fields.path(), type);
  }
  const bool one_character = step.kind == Kind::metaspace || step.kind == Kind::strip;
  if (one_character && utf8::length(step.text) != 1)
    return invalid("{}: \"{}\" must be one character", fields.path(), step.text);
  return step;
}

std::string TokenDecoder::bytes_of(std::string_view token, bool begins_text) const {
  std::string text = byte_level_ ? byte_level_bytes(token).value_or(std::string(token))
                                 : through_token_steps(token, begins_text);
  if (!begins_text) return text;
  for (const Step& step : text_steps_) text = strip_token(text, step.text, step.start, 0);
  return text;
}

std::string TokenDecoder::through_token_steps(std::string_view token, bool begins_text) const {
  std::string text(token);
  for (const Step& step : token_steps_) {
    if (step.kind == Kind::byte_fallback) {
      if (const auto byte = fallback_byte(text)) return {*byte};
    } else if (step.kind == Kind::replace) {
      if (auto replaced = replace_all(step.pattern.front(), step.text, text)) text = *replaced;
    } else if (step.kind == Kind::strip) {
      text = strip_token(text, step.text, step.start, step.stop);
    } else {
      text = without_marks(text, step.text, begins_text && step.drop_first);
    }
  }
  return text;
}

TokenDecoder::Stream::Stream(const TokenDecoder& decoder, ByteRuns byte_runs)
    : decoder_(&decoder),
      byte_runs_(byte_runs),
      token_states_(decoder.token_steps_.size()),
      text_states_(decoder.text_steps_.size()) {
  for (std::size_t i = 0; i < text_states_.size(); ++i)
    text_states_[i].left = decoder.text_steps_[i].start;
}

bool TokenDecoder::Stream::begun() const {
  if (decoder_->join_with_space_ && first_) return false;
  for (std::size_t i = 0; i < token_states_.size(); ++i) {
    if (decoder_->token_steps_[i].drop_first && token_states_[i].tokens == 0) return false;
  }
  return std::ranges::all_of(text_states_, [](const StepState& strip) { return strip.left == 0; });
}

void TokenDecoder::Stream::push(std::string_view token, std::string& out) {
  if (decoder_->byte_level_) {
    std::string text;
    bytes_.push(byte_level_bytes(token).value_or(std::string(token)), text);
    through_text(0, text, out);
    return;
  }
  if (decoder_->join_with_space_ && !first_) out += ' ';
  first_ = false;
  through_tokens(0, token, out);
}

void TokenDecoder::Stream::finish(std::string& out) {
  if (decoder_->byte_level_) {
    std::string text;
    bytes_.finish(text);
    through_text(0, text, out);
  }
  for (std::size_t i = 0; i < token_states_.size(); ++i)
    if (decoder_->token_steps_[i].kind == Kind::byte_fallback) end_byte_run(i, out);
  // The characters that a Strip still holds are within its limit and are dropped; it has released
  // any others before.
  for (std::size_t i = 0; i < text_states_.size(); ++i) text_states_[i].held = 0;
}

void TokenDecoder::Stream::through_tokens(std::size_t index, std::string_view token,
                                          std::string& out) {
  if (index == token_states_.size()) return through_text(0, token, out);
  const Step& step = decoder_->token_steps_[index];
  switch (step.kind) {
    case Kind::byte_fallback:
      return byte_fallback(index, token, out);
    case Kind::strip:
      return through_tokens(index + 1, strip_token(token, step.text, step.start, step.stop), out);
    case Kind::replace: {
      const auto replaced = replace_all(step.pattern.front(), step.text, token);
      return through_tokens(index + 1, replaced ? *replaced : token, out);
    }
    case Kind::metaspace: {
      const bool drop = token_states_[index].tokens++ == 0 && step.drop_first;
      return through_tokens(index + 1, without_marks(token, step.text, drop), out);
    }
  }
}

void TokenDecoder::Stream::byte_fallback(std::size_t index, std::string_view token,
                                         std::string& out) {
  const std::optional<char> byte = fallback_byte(token);
  if (!byte) {
    end_byte_run(index, out);
    return through_tokens(index + 1, token, out);
  }
  token_states_[index].run += *byte;
  if (byte_runs_ == ByteRuns::whole) return;
  // True if a later step could treat a run differently from its separate characters.
  const bool needs_run = std::any_of(
      decoder_->token_steps_.begin() + static_cast<std::ptrdiff_t>(index) + 1,
      decoder_->token_steps_.end(),
      [](const Step& step) { return step.kind == Kind::strip || step.kind == Kind::replace; });
  if (!needs_run) end_character(index, out);
}

// Passes on the run if its newest byte completes a character, together with bytes that can be part
// of none.
void TokenDecoder::Stream::end_character(std::size_t index, std::string& out) {
  StepState& state = token_states_[index];
  std::string text;
  state.validator.push({&state.run.back(), 1}, text);
  if (text.empty()) return;
  const std::string run = std::exchange(state.run, {});
  if (text == run) return through_tokens(index + 1, run, out);
  // The bytes before the newest one are not the beginning of a character: `text` starts with one
  // U+FFFD for all of them.
  std::string_view newest = text;
  if (run.size() > 1) {
    replace_bytes(index, run.size() - 1, out);
    newest.remove_prefix(utf8::kReplacement.size());
  }
  if (newest.empty()) {
    state.run = run.back();
  } else {
    through_tokens(index + 1, newest, out);
  }
}

void TokenDecoder::Stream::end_byte_run(std::size_t index, std::string& out) {
  const std::string run = std::exchange(token_states_[index], {}).run;
  if (run.empty()) return;
  if (utf8::valid(run)) return through_tokens(index + 1, run, out);
  replace_bytes(index, run.size(), out);
}

void TokenDecoder::Stream::replace_bytes(std::size_t index, std::size_t count, std::string& out) {
  for (std::size_t i = 0; i < count; ++i) through_tokens(index + 1, utf8::kReplacement, out);
}

void TokenDecoder::Stream::through_text(std::size_t index, std::string_view text,
                                        std::string& out) {
  if (text.empty()) return;
  if (index == text_states_.size()) {
    out += text;
  } else {
    strip_text(index, text, out);
  }
}

void TokenDecoder::Stream::strip_text(std::size_t index, std::string_view text, std::string& out) {
  const Step& step = decoder_->text_steps_[index];
  StepState& state = text_states_[index];
  const std::string_view c = step.text;
  while (state.left > 0 && !text.empty()) {
    if (!text.starts_with(c)) {
      state.left = 0;
      break;
    }
    text.remove_prefix(c.size());
    --state.left;
  }
  if (text.empty()) return;
  // The last `stop` characters c at the end may be stripped, so they are held until other text
  // follows.
  std::size_t trailing = 0;
  std::string_view body = text;
  while (trailing < step.stop && body.ends_with(c)) {
    body.remove_suffix(c.size());
    ++trailing;
  }
  std::string certain;
  const std::size_t total = state.held + trailing;
  const std::size_t release = body.empty() ? total - std::min(total, step.stop) : state.held;
  for (std::size_t i = 0; i < release; ++i) certain += c;
  certain += body;
  state.held = total - release;
  through_text(index + 1, certain, out);
}

}  // namespace tandem
