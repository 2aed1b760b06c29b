// A regular expression in PEFT's sense (Python's re.fullmatch), written by a stranger, run within
// limits by PCRE2.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// Move-only. Thread-safe.
class PythonRegex {
 public:
  // `pattern` must match from the first character to the last, as Python's re.fullmatch does.
  static Result<PythonRegex> compile_full(std::string_view pattern);

  // Fails when the pattern needs too many steps for this subject.
  Result<bool> matches(std::string_view subject) const;
  // Writes the first group's text (empty if it took no part) when it matches.
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
