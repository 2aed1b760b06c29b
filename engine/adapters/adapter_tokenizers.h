// The tokenizers in adapters' folders. Trainers copy the base's beside every adapter, so that few
// of them differ; those that do are shared by the adapters whose folders hold the same file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/loader/peft/peft_source.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

// Thread-safe.
class AdapterTokenizers {
 public:
  // `base` outlives it.
  explicit AdapterTokenizers(const Tokenizer& base) : base_(&base) {}

  // Returns the tokenizer of a tokenizer.json with this text; null: it has the base's tokens.
  Result<std::shared_ptr<const Tokenizer>> find(std::string_view text);
  // Refuses a tokenizer (null: the base's) with ids for which neither an adapter with `vocab_size`
  // tokens nor the base's own tokenizer has a row.
  Status check(const Tokenizer* tokenizer, std::int64_t vocab_size) const;

 private:
  struct Known {
    std::weak_ptr<const Tokenizer> tokenizer;
    bool is_base = false;
  };
  bool is_base(const Tokenizer& tokenizer) const;

  const Tokenizer* base_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;  // by SHA-256 of the text; guarded by mutex_
};

}  // namespace tandem
