// From the tokens of one continuation to the text that may be shown: whole characters only, and
// nothing that could turn out to be the beginning of a stop string.
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
  // `include_stop` keeps the stop string in the text. Empty stop strings are ignored; one that
  // holds a special token's name matches that token, though the text skips it. `kept`: special
  // tokens that are not skipped. `prompt`: what the continuation goes on with; its text is not
  // shown.
  OutputText(const Tokenizer& tokenizer, bool skip_special, std::vector<std::string> stops,
             bool include_stop, std::vector<TokenId> kept = {},
             std::span<const TokenId> prompt = {});

  // What became certain with this token. While `stops_count` is false (min_tokens not reached) stop
  // strings pass as text.
  std::string push(TokenId token, bool stops_count);
  // The rest, when the continuation ends for another reason.
  std::string flush();
  // The stop string that ended the text; push() returns nothing more after it.
  const std::optional<std::string>& stopped_by() const { return stopped_by_; }

 private:
  struct Hidden {
    std::size_t begin, end;
  };
  // The name of a token that the text skips and a stop string holds; else nothing.
  std::string_view hidden_name(TokenId token) const;
  std::string release(bool stops_count);
  // Takes the first `count` bytes out of held_; those that are hidden are left out, but for what
  // lies behind `shown_from`.
  std::string take(std::size_t count, std::size_t shown_from);

  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  bool include_stop_;
  std::string held_;            // decoded, not yet shown
  std::vector<Hidden> hidden_;  // names of skipped tokens in held_, in order, never empty
  std::optional<std::string> stopped_by_;
};

}  // namespace tandem
