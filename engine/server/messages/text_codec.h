// The interface between REST and the tokenizer: text to tokens and back.
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

class GenerationService;
class Tokenizer;

// The treatment of special tokens that are written out in a chat's messages, tools and documents.
enum class SpecialTokensInContent {
  tokens,  // they are special tokens, as in transformers: <|im_end|> in a user's words ends the
           // turn
  text,    // they are ordinary text
};

// The source of the chat template: the request's, else the adapter's, else the checkpoint's.
struct ChatSource {
  std::string_view request = {};           // empty: none
  const ChatTemplates* adapter = nullptr;  // null: none
};

// Thread-safe.
class TextCodec {
 public:
  virtual ~TextCodec() = default;
  virtual Result<std::vector<TokenId>> encode(std::string_view text, bool add_special) const = 0;
  // Encodes a pair of texts, with special tokens.
  virtual Result<std::vector<TokenId>> encode_pair(std::string_view first,
                                                   std::string_view second) const = 0;
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special) const = 0;
  virtual std::size_t vocab_size() const = 0;             // highest id + 1
  virtual std::string id_to_token(TokenId id) const = 0;  // as in the vocabulary
  virtual std::string token_bytes(TokenId id) const = 0;  // the bytes that the token adds to a text
  // The bytes that it adds as the first token of a text, at which a space may be dropped.
  virtual std::string first_token_bytes(TokenId id) const { return token_bytes(id); }
  // Whether a token after these would begin the text, because all of these are skipped special
  // tokens.
  virtual bool says_nothing(std::span<const TokenId>, bool /*skip_special*/) const { return false; }
  // Nothing if the text is not a special token.
  virtual std::optional<TokenId> special_token(std::string_view text) const = 0;
  // The same with another tokenizer, for requests with an adapter that has one. The original must
  // outlive it. Null: there is only one.
  virtual std::shared_ptr<const TextCodec> with(const std::shared_ptr<const Tokenizer>&) const {
    return nullptr;
  }
  // The checkpoint's templates; null if it has none.
  virtual const ChatTemplates* chat_templates() const { return nullptr; }
  virtual bool has_chat_template() const { return chat_templates() != nullptr; }
  // Renders a chat by the template that `source` selects, like render_conversation(). Requires a
  // template in one of the sources.
  virtual Result<std::string> render_chat(const ChatInput& input,
                                          const ChatSource& source) const = 0;
  // Encodes the result of render_chat(). The template itself writes the special tokens.
  virtual Result<std::vector<TokenId>> encode_chat(std::string_view rendered) const {
    return encode(rendered, false);
  }
  // Ends running and later renderings with `unavailable`, so that a server's shutdown does not wait
  // for a template.
  virtual void end_renderings() const {}
};

// Makes a codec from the real tokenizer and templates, which must outlive it. `templates` may be
// null if the checkpoint has none.
std::unique_ptr<TextCodec> make_text_codec(
    const Tokenizer& tokenizer, const ChatTemplates* templates,
    SpecialTokensInContent special_tokens = SpecialTokensInContent::tokens);

// Returns the text of requests with this adapter of `service`: by its tokenizer, if it has one,
// else `base`, which must outlive the result. An empty name: `base`.
std::shared_ptr<const TextCodec> text_with_adapter(const TextCodec& base,
                                                   const GenerationService& service,
                                                   const std::string& adapter);

}  // namespace tandem
