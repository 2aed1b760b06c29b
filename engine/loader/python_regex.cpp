#include "engine/loader/python_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

namespace tandem {
namespace {

constexpr std::size_t kMaxPatternBytes = 64 << 10;
constexpr std::uint32_t kMaxSteps = 100'000;
constexpr std::uint32_t kMaxHeapKib = 1024;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <auto release>
struct Release {
  template <typename T>
  void operator()(T* handle) const {
    release(handle);
  }
};
using MatchData = std::unique_ptr<pcre2_match_data, Release<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Release<pcre2_match_context_free>>;

}  // namespace

void PythonRegex::Free::operator()(void* code) const {
  pcre2_code_free(static_cast<pcre2_code*>(code));
}

Result<PythonRegex> PythonRegex::compile_full(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return invalid("the pattern has {} bytes, more than {}", pattern.size(), kMaxPatternBytes);
  }
  int code = 0;
  PCRE2_SIZE offset = 0;
  constexpr std::uint32_t kOptions =
      PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code* const compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                             pattern.size(), kOptions, &code, &offset, nullptr);
  if (compiled == nullptr) {
    return invalid("'{}' is not a regular expression: {} at character {}", pattern,
                   message_of(code), offset);
  }
  return PythonRegex(std::string(pattern), compiled);
}

Result<bool> PythonRegex::matches(std::string_view subject) const {
  return run(subject, nullptr);
}

Result<bool> PythonRegex::matches(std::string_view subject, std::string& group) const {
  return run(subject, &group);
}

Result<bool> PythonRegex::run(std::string_view subject, std::string* group) const {
  auto* const code = static_cast<pcre2_code*>(code_.get());
  const MatchData data(pcre2_match_data_create_from_pattern(code, nullptr));
  const MatchContext context(pcre2_match_context_create(nullptr));
  if (!data || !context) return error(StatusCode::resource_exhausted, "no memory for a match");
  pcre2_set_match_limit(context.get(), kMaxSteps);
  pcre2_set_depth_limit(context.get(), kMaxSteps);
  pcre2_set_heap_limit(context.get(), kMaxHeapKib);
  const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(),
                                0, 0, data.get(), context.get());
  if (count == PCRE2_ERROR_NOMATCH) return false;
  if (count < 0) return invalid("the pattern '{}' cannot be used: {}", pattern_, message_of(count));
  if (group != nullptr) {
    const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(data.get());
    group->clear();
    if (count > 1 && ends[2] != PCRE2_UNSET)
      group->assign(subject.substr(ends[2], ends[3] - ends[2]));
  }
  return true;
}

}  // namespace tandem
