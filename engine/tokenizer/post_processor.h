// tokenizer.json's "post_processor": what is put around the ids of a text (BOS and the like).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/token_id.h"

namespace tandem {

// TemplateProcessing, ByteLevel (which touches offsets only, so nothing here) and Sequences of
// them. Immutable, thread-safe.
class PostProcessor {
 public:
  // Ids outside [0, vocab_size) are refused.
  static Result<PostProcessor> parse(const nlohmann::json& spec, std::size_t vocab_size);

  std::vector<TokenId> apply(std::vector<TokenId> ids) const;

 private:
  struct Template {  // the text's ids go between
    std::vector<TokenId> before, after;
  };
  Status parse_into(const nlohmann::json& spec, const std::string& path, int depth,
                    std::size_t vocab_size);
  static Result<Template> parse_template(const class Fields& fields, std::size_t vocab_size);

  std::vector<Template> templates_;
};

}  // namespace tandem
