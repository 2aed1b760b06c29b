// Splits a template's source into tokens, with Jinja's rules for white space around tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::jinja {

struct Token {
  enum class Type {
    text,            // literal output
    block_begin,     // {%
    block_end,       // %}
    variable_begin,  // {{
    variable_end,    // }}
    name,
    string,   // text: the value, with escapes resolved
    integer,  // text: the digits, without underscores
    floating,
    op,  // punctuation
    end,
  };
  Type type;
  std::string text;
  int line;
};

// Uses trim_blocks and lstrip_blocks, which chat templates are written for. Throws Error. The last
// token is `end`.
std::vector<Token> tokenize(std::string_view source);

}  // namespace tandem::jinja
