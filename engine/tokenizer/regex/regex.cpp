#include "engine/tokenizer/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <limits>

namespace tandem {
namespace {

// The number of steps of a match is limited in proportion to the text, so that long texts are
// possible.
constexpr std::size_t kStepsPerByte = 64;
constexpr std::size_t kMinSteps = 1'000'000;
constexpr std::size_t kJitStackStart = 32U << 10;
constexpr std::size_t kJitStackMax = 8U << 20;
constexpr std::size_t kMaxPatternBytes = 64U << 10;

// The output buffers of a match. One per thread, because concurrent matches may not share them.
class MatchScratch {
 public:
  MatchScratch()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)) {
    if (context_ != nullptr && stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~MatchScratch() {
    pcre2_jit_stack_free(stack_);
    pcre2_match_context_free(context_);
    pcre2_match_data_free(data_);
  }
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

  bool ok() const { return data_ != nullptr && context_ != nullptr; }
  pcre2_match_data* data() const { return data_; }
  pcre2_match_context* context(std::size_t text_bytes) {
    const std::size_t limit = std::max(kMinSteps, text_bytes * kStepsPerByte);
    if (limit != limit_) {
      limit_ = limit;
      pcre2_set_match_limit(context_, static_cast<std::uint32_t>(std::min<std::size_t>(
                                          limit, std::numeric_limits<std::uint32_t>::max())));
    }
    return context_;
  }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;  // may be null; PCRE2 then uses the machine stack
  std::size_t limit_ = 0;
};

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof buffer) < 0) return fmt::format("{}", code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* c) : code(c) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  pcre2_code* code;
};

Result<Regex> Regex::build(const std::string& translated, std::string_view original) {
  if (translated.size() > kMaxPatternBytes)
    return invalid("regular expression of {} bytes; at most {} are allowed", translated.size(),
                   kMaxPatternBytes);
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (!context) return error(StatusCode::internal, "no memory for a regular expression");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);  // the default depends on the build of PCRE2
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code,
                    &offset, context.get());
  if (compiled == nullptr)
    return invalid("regular expression \"{}\": {}", original, message_of(code));
  auto owner = std::make_shared<const Code>(compiled);
  // If the system forbids writable code pages, PCRE2 interprets the pattern: slower, with the same
  // result.
  (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  return Regex(std::move(owner));
}

Result<Regex> Regex::compile(std::string_view pattern) {
  TANDEM_ASSIGN(std::string translated, translate_oniguruma(pattern));
  return build(translated, pattern);
}

Result<Regex> Regex::literal(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto b = static_cast<unsigned char>(c);
    if (b >= 0x80) {
      escaped += c;
    } else {
      escaped += fmt::format("\\x{:02x}", b);
    }
  }
  return build(escaped, text);
}

Status Regex::find(std::string_view text, std::size_t from, TextRange& match, bool& found) const {
  // Thread-local, because creating PCRE2's buffers takes longer than most matches.
  thread_local MatchScratch scratch;
  if (!scratch.ok()) return error(StatusCode::internal, "no memory for a regular expression");
  const int rc =
      pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                  PCRE2_NO_UTF_CHECK, scratch.data(), scratch.context(text.size()));
  if (rc == PCRE2_ERROR_NOMATCH) {
    found = false;
    return {};
  }
  if (rc < 0)
    return invalid("the tokenizer's regular expression gave up on this text: {}", message_of(rc));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch.data());
  match = {bounds[0], bounds[1]};
  if (match.end < match.begin || match.begin < from)  // possible with \K in a lookaround
    return invalid("the tokenizer's regular expression matches backwards");
  found = true;
  return {};
}

}  // namespace tandem
