#include "engine/server/messages/text_codec.h"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

bool has_parts(const Json& messages) {
  return std::any_of(messages.begin(), messages.end(), [](const Json& message) {
    const auto content = message.find("content");
    return content != message.end() && content->is_array();
  });
}

void join_parts(Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return;
  std::string text;
  for (const Json& part : *content) {
    if (&part != &content->front()) text += '\n';
    text += part.at("text").get_ref<const std::string&>();
  }
  *content = std::move(text);
}

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
  std::string first_token_bytes(TokenId id) const override {
    return tokenizer_.token_bytes(id, true);
  }
  bool says_nothing(std::span<const TokenId> ids, bool skip_special) const override {
    return !StreamDecoder(tokenizer_, skip_special, {}, ids).begun();
  }
  std::optional<TokenId> special_token(std::string_view text) const override {
    const auto id = tokenizer_.token_to_id(text);
    return id && tokenizer_.is_special(*id) ? id : std::nullopt;
  }
  bool has_chat_template() const override { return chat_template_ != nullptr; }
  Result<std::string> render_chat(const ChatInput& input, std::string_view source) const override {
    if (source.empty()) {
      TANDEM_CHECK(chat_template_ != nullptr, "no chat template");
      return render(*chat_template_, input);
    }
    TANDEM_ASSIGN(const auto own, chat_template_ == nullptr
                                      ? ChatTemplate::parse(source, Json::object())
                                      : chat_template_->parse_another(source));
    return render(*own, input);
  }
  void end_renderings() const override { stopped_ = true; }

 private:
  Result<std::string> render(const ChatTemplate& chat, const ChatInput& input) const {
    const RenderLimits limits{.stopped = &stopped_};
    if (!has_parts(input.messages) || chat.reads_content_parts()) return chat.render(input, limits);
    ChatInput joined = input;
    for (Json& message : joined.messages) join_parts(message);
    return chat.render(joined, limits);
  }

  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_template_;
  mutable std::atomic<bool> stopped_ = false;
};

}  // namespace

std::unique_ptr<TextCodec> make_text_codec(const Tokenizer& tokenizer,
                                           const ChatTemplate* chat_template) {
  return std::make_unique<TokenizerCodec>(tokenizer, chat_template);
}

}  // namespace tandem
