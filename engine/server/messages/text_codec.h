// Text to tokens and back, as the server needs it: the seam between REST and the tokenizer.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/service/generation.h"
#include "engine/tokenizer/jinja/chat_template.h"
#include "engine/tokenizer/jinja/chat_templates.h"

namespace tandem {

class Tokenizer;

// What special tokens that are written out in a chat's messages, tools and documents become.
enum class SpecialTokensInContent {
  tokens,  // themselves, as in transformers: <|im_end|> in a user's words ends the user's turn
  text,    // text like any other
};

// What renders a chat: a request's own template, else those of its adapter, else the checkpoint's.
struct ChatSource {
  std::string_view request = {};           // empty: it has none
  const ChatTemplates* adapter = nullptr;  // null: it has none
};

// Thread-safe.
class TextCodec {
 public:
  virtual ~TextCodec() = default;
  virtual Result<std::vector<TokenId>> encode(std::string_view text, bool add_special) const = 0;
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special) const = 0;
  virtual std::size_t vocab_size() const = 0;             // highest id + 1
  virtual std::string id_to_token(TokenId id) const = 0;  // as in the vocabulary
  virtual std::string token_bytes(TokenId id) const = 0;  // what the token adds to a text
  // What it adds as a text's first, which may lose a space there.
  virtual std::string first_token_bytes(TokenId id) const { return token_bytes(id); }
  // Whether a token behind these would begin the text: they are special ones that are skipped.
  virtual bool says_nothing(std::span<const TokenId>, bool /*skip_special*/) const { return false; }
  // Nothing: the text is no token, or one that is not special.
  virtual std::optional<TokenId> special_token(std::string_view text) const = 0;
  // Of the checkpoint; null: it has none.
  virtual const ChatTemplates* chat_templates() const { return nullptr; }
  virtual bool has_chat_template() const { return chat_templates() != nullptr; }
  // Renders a chat by what `source` says, as render_conversation() does. Requires a template
  // somewhere.
  virtual Result<std::string> render_chat(const ChatInput& input,
                                          const ChatSource& source) const = 0;
  // The tokens of what render_chat() gave. The template writes the special tokens itself.
  virtual Result<std::vector<TokenId>> encode_chat(std::string_view rendered) const {
    return encode(rendered, false);
  }
  // Ends the renderings in progress and all later ones, with `unavailable`: a server that shuts
  // down waits for no template.
  virtual void end_renderings() const {}
};

// Over the real ones, which outlive it. `templates` may be null: the checkpoint has none.
std::unique_ptr<TextCodec> make_text_codec(
    const Tokenizer& tokenizer, const ChatTemplates* templates,
    SpecialTokensInContent special_tokens = SpecialTokensInContent::tokens);

}  // namespace tandem
