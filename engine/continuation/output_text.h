// From the tokens of one continuation to the text that may be shown: whole characters only, and
// nothing that could turn out to be the beginning of a stop string.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace tandem {

class OutputText {
 public:
  // `include_stop` keeps the stop string in the text. Empty stop strings are ignored. `kept`:
  // special tokens that are not skipped.
  OutputText(const Tokenizer& tokenizer, bool skip_special, std::vector<std::string> stops,
             bool include_stop, std::vector<TokenId> kept = {});

  // What became certain with this token. While `stops_count` is false (min_tokens not reached) stop
  // strings pass as text.
  std::string push(TokenId token, bool stops_count);
  // The rest, when the continuation ends for another reason.
  std::string flush();
  // The stop string that ended the text; push() returns nothing more after it.
  const std::optional<std::string>& stopped_by() const { return stopped_by_; }

 private:
  std::string release(bool stops_count);

  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  bool include_stop_;
  std::string held_;  // decoded, not yet shown
  std::optional<std::string> stopped_by_;
};

}  // namespace tandem
