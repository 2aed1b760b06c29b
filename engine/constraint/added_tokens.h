// The tokens in which an adapter's tokenizer differs from the base's, for which constraints were
// compiled: a filter asks for each of them whether its text may come next.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/ids/token_id.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

struct AddedTokens {
  using Texts = std::vector<std::pair<TokenId, std::string>>;
  Texts texts;    // of all of them; empty: a special token
  Texts special;  // the special ones by their names; only a structural tag that names one allows it
};

// Thread-safe.
class AddedTokensOfAdapters {
 public:
  // `base` outlives it.
  explicit AddedTokensOfAdapters(const Tokenizer& base) : base_(&base) {}

  // Null: a token has a text in both, and not the same, so that what is compiled for the base's
  // tokens does not hold for `own`.
  std::shared_ptr<const AddedTokens> find(const std::shared_ptr<const Tokenizer>& own);

 private:
  struct Known {
    std::weak_ptr<const Tokenizer> own;
    std::shared_ptr<const AddedTokens> added;
  };
  std::shared_ptr<const AddedTokens> compare(const Tokenizer& own) const;

  const Tokenizer* base_;
  std::mutex mutex_;
  std::map<const Tokenizer*, Known> known_;  // guarded by mutex_
};

}  // namespace tandem
