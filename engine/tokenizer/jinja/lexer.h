// The source of a template to tokens, with Jinja's rules for white space around tags.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::jinja {

// How the interpreter's parts report a failure to each other. It never leaves engine/tokenizer:
// ChatTemplate turns it into a Status. line 0: not known.
class Error : public std::runtime_error {
 public:
  Error(const std::string& message, int at_line = 0) : std::runtime_error(message), line(at_line) {}
  int line;
};

struct Token {
  enum class Type {
    text,            // literal output
    block_begin,     // {%
    block_end,       // %}
    variable_begin,  // {{
    variable_end,    // }}
    name,
    string,   // text: the value, escapes resolved
    integer,  // text: the digits, without underscores
    floating,
    op,  // punctuation
    end,
  };
  Type type;
  std::string text;
  int line;
};

// As in an environment with trim_blocks and lstrip_blocks, which is what chat templates are written
// for. Throws Error. The last token is `end`.
std::vector<Token> tokenize(std::string_view source);

}  // namespace tandem::jinja
