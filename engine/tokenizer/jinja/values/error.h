// How the interpreter's parts report a failure to each other. None of these leaves
// engine/tokenizer: ChatTemplate turns them into a Status.
#pragma once

#include <stdexcept>
#include <string>

namespace tandem::jinja {

class Error : public std::runtime_error {
 public:
  Error(const std::string& message, int at_line = 0) : std::runtime_error(message), line(at_line) {}
  int line;  // 0: not known
};

// What raise_exception throws: a refusal that the template's author wrote for its users.
class Raised : public Error {
 public:
  using Error::Error;
};

// Nothing is wrong with the template: its thread is wanted back.
class Stopped : public Error {
 public:
  using Error::Error;
};

}  // namespace tandem::jinja
