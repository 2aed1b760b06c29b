#include "engine/server/messages/text_codec.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "engine/tokenizer/jinja/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {
namespace {

class TokenizerCodec final : public TextCodec {
 public:
  TokenizerCodec(const Tokenizer& tokenizer, const ChatTemplate* chat_template)
      : tokenizer_(tokenizer), chat_template_(chat_template) {}

  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special) const override {
    return tokenizer_.encode(text, add_special);
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override {
    return tokenizer_.decode(ids, skip_special);
  }
  std::size_t vocab_size() const override { return tokenizer_.vocab_size(); }
  std::string id_to_token(TokenId id) const override {
    return std::string(tokenizer_.id_to_token(id));
  }
  std::string token_bytes(TokenId id) const override { return tokenizer_.token_bytes(id); }
  bool has_chat_template() const override { return chat_template_ != nullptr; }
  Result<std::string> render_chat(const nlohmann::json& messages, bool add_generation_prompt,
                                  const nlohmann::json& extra) const override {
    TANDEM_CHECK(chat_template_ != nullptr, "no chat template");
    return chat_template_->render(messages, add_generation_prompt, extra);
  }

 private:
  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_template_;
};

}  // namespace

std::unique_ptr<TextCodec> make_text_codec(const Tokenizer& tokenizer,
                                           const ChatTemplate* chat_template) {
  return std::make_unique<TokenizerCodec>(tokenizer, chat_template);
}

}  // namespace tandem
