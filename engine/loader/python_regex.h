// A regular expression in PEFT's sense (Python's re.fullmatch). It is untrusted, so PCRE2 runs it
// within limits.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// Move-only. Thread-safe.
class PythonRegex {
 public:
  // `pattern` must match from the first character to the last, as in Python's re.fullmatch.
  static Result<PythonRegex> compile_full(std::string_view pattern);

  // Fails if the pattern needs too many steps for this subject.
  Result<bool> matches(std::string_view subject) const;
  // If it matches, writes the first group's text (empty if the group took no part).
  Result<bool> matches(std::string_view subject, std::string& group) const;

 private:
  struct Free {
    void operator()(void* code) const;
  };
  PythonRegex(std::string pattern, void* code) : pattern_(std::move(pattern)), code_(code) {}
  Result<bool> run(std::string_view subject, std::string* group) const;

  std::string pattern_;
  std::unique_ptr<void, Free> code_;  // pcre2_code
};

}  // namespace tandem
