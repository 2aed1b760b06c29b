// Exceptions of the interpreter. They do not leave engine/tokenizer: ChatTemplate converts them to
// a Status.
#pragma once

#include <stdexcept>
#include <string>

namespace tandem::jinja {

class Error : public std::runtime_error {
 public:
  Error(const std::string& message, int at_line = 0) : std::runtime_error(message), line(at_line) {}
  int line;  // 0: unknown
};

// Thrown by raise_exception: a refusal that the template's author wrote for users.
class Raised : public Error {
 public:
  using Error::Error;
};

// The rendering was stopped without an error in the template, because its thread is needed.
class Stopped : public Error {
 public:
  using Error::Error;
};

}  // namespace tandem::jinja
