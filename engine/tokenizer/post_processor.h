// The "post_processor" of tokenizer.json, which adds ids around those of a text (BOS and the like).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/ids/token_id.h"
#include "base/status.h"

namespace tandem {

// Supports TemplateProcessing, ByteLevel (no effect here, because it changes offsets only) and
// Sequences of them. Immutable, thread-safe.
class PostProcessor {
 public:
  // Refuses ids outside [0, vocab_size).
  static Result<PostProcessor> parse(const nlohmann::json& spec, std::size_t vocab_size);

  std::vector<TokenId> apply(std::vector<TokenId> ids) const;

 private:
  struct Template {  // ids before and after those of the text
    std::vector<TokenId> before, after;
  };
  Status parse_into(const nlohmann::json& spec, const std::string& path, int depth,
                    std::size_t vocab_size);
  static Result<Template> parse_template(const class Fields& fields, std::size_t vocab_size);

  std::vector<Template> templates_;
};

}  // namespace tandem
