// Converts the tokens of one continuation to text that may be shown: whole characters only, without
// a suffix that may turn out to be the beginning of a stop string.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace tandem {

class OutputText {
 public:
  // `include_stop` keeps the stop string in the text. Empty stop strings are ignored. A stop string
  // that contains a special token's name matches that token, although the text skips it. `kept`:
  // special tokens that are not skipped. `prompt`: the tokens before the continuation; their text
  // is not shown.
  OutputText(const Tokenizer& tokenizer, bool skip_special, std::vector<std::string> stops,
             bool include_stop, std::vector<TokenId> kept = {},
             std::span<const TokenId> prompt = {});

  // Returns the text that became certain with this token. While `stops_count` is false (min_tokens
  // not reached) stop strings are ordinary text.
  std::string push(TokenId token, bool stops_count);
  // Returns the rest, if the continuation ends for another reason.
  std::string flush();
  // Returns the stop string that ended the text; after it push() returns nothing.
  const std::optional<std::string>& stopped_by() const { return stopped_by_; }

 private:
  struct Hidden {
    std::size_t begin, end;
  };
  // Returns the name of a token that the text skips and a stop string contains; else nothing.
  std::string_view hidden_name(TokenId token) const;
  std::string release(bool stops_count);
  // Removes the first `count` bytes from held_ and returns them without the hidden ones, except
  // those after `shown_from`.
  std::string take(std::size_t count, std::size_t shown_from);

  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  bool include_stop_;
  std::string held_;            // decoded but not shown
  std::vector<Hidden> hidden_;  // names of skipped tokens in held_, in order, never empty
  std::optional<std::string> stopped_by_;
};

}  // namespace tandem
