// The "post_processor" of tokenizer.json, which adds ids around those of a text (BOS and the like).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
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
  // Joins the ids of the two texts of a pair. Fails if the file's rule for pairs does not have each
  // text once, in order.
  Result<std::vector<TokenId>> apply_to_pair(const std::vector<TokenId>& first,
                                             const std::vector<TokenId>& second) const;

 private:
  // The ids around those of the texts: before the first, behind it, and so on.
  using Around = std::vector<std::vector<TokenId>>;
  struct Template {
    Around single;               // of one text
    std::optional<Around> pair;  // of two; not set: another rule, which is not supported
  };
  Status parse_into(const nlohmann::json& spec, const std::string& path, int depth,
                    std::size_t vocab_size);
  static Result<Around> parse_template(const class Fields& fields, const char* name,
                                       std::string_view texts, std::size_t vocab_size);

  std::vector<Template> templates_;
};

}  // namespace tandem
