#include "engine/server/messages/text_codec.h"

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/json/json_release.h"
#include "engine/server/messages/conversation_rendering.h"
#include "engine/server/messages/ordered_json.h"
#include "engine/service/service.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// The breaker that keeps special tokens in contents from being recognized. U+FDD1 is a
// noncharacter, which texts do not need; those in a text are lost.
constexpr std::string_view kBreaker = "\xEF\xB7\x91";  // U+FDD1

Json with_broken_tokens(const Tokenizer& tokenizer, const Json& value) {
  if (value.is_string()) {
    return tokenizer.break_special_tokens(value.get_ref<const std::string&>(), kBreaker);
  }
  if (!value.is_structured()) return value;
  Json broken = value.is_array() ? Json::array() : Json::object();
  for (const auto& [name, member] : value.items()) {
    if (value.is_array()) {
      broken.push_back(with_broken_tokens(tokenizer, member));
    } else {
      append_member(broken, tokenizer.break_special_tokens(name, kBreaker),
                    with_broken_tokens(tokenizer, member));
    }
  }
  return broken;
}

class TokenizerCodec final : public TextCodec {
 public:
  TokenizerCodec(const Tokenizer& tokenizer, const ChatTemplates* templates,
                 SpecialTokensInContent special_tokens)
      : tokenizer_(tokenizer), templates_(templates), special_tokens_(special_tokens) {}
  TokenizerCodec(std::shared_ptr<const Tokenizer> tokenizer, const TokenizerCodec& like)
      : own_(std::move(tokenizer)),
        tokenizer_(*own_),
        templates_(like.templates_),
        special_tokens_(like.special_tokens_),
        stopped_(like.stopped_) {}

  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special) const override {
    return tokenizer_.encode(text, add_special);
  }
  Result<std::vector<TokenId>> encode_pair(std::string_view first,
                                           std::string_view second) const override {
    return tokenizer_.encode_pair(first, second);
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
  std::shared_ptr<const TextCodec> with(
      const std::shared_ptr<const Tokenizer>& tokenizer) const override {
    return std::make_shared<TokenizerCodec>(tokenizer, *this);
  }
  const ChatTemplates* chat_templates() const override { return templates_; }
  Result<std::string> render_chat(const ChatInput& input, const ChatSource& source) const override {
    if (special_tokens_ == SpecialTokensInContent::tokens) return render(input, source);
    ChatInput broken;
    const EmptiedFromLeaves messages_at_end(broken.messages);
    const EmptiedFromLeaves variables_at_end(broken.variables);
    broken.add_generation_prompt = input.add_generation_prompt;
    broken.continue_final_message = input.continue_final_message;
    broken.variables = input.variables;
    broken.messages = with_broken_tokens(tokenizer_, input.messages);
    for (const char* name : {"tools", "documents"}) {
      const auto found = broken.variables.find(name);
      if (found != broken.variables.end()) *found = with_broken_tokens(tokenizer_, *found);
    }
    return render(broken, source);
  }
  Result<std::vector<TokenId>> encode_chat(std::string_view rendered) const override {
    const bool breaks = special_tokens_ == SpecialTokensInContent::text;
    return tokenizer_.encode(rendered, false, breaks ? kBreaker : std::string_view());
  }
  void end_renderings() const override { *stopped_ = true; }

 private:
  Result<std::string> render(const ChatInput& input, const ChatSource& source) const {
    const RenderLimits limits{.stopped = stopped_.get()};
    const ChatTemplates* templates = source.adapter == nullptr ? templates_ : source.adapter;
    if (!source.request.empty()) {
      TANDEM_ASSIGN(const auto own, templates == nullptr
                                        ? ChatTemplate::parse(source.request, Json::object())
                                        : templates->parse_another(source.request));
      return render_conversation(*own, input, limits);
    }
    TANDEM_CHECK(templates != nullptr, "no chat template");
    const auto tools = input.variables.find("tools");
    const bool has_tools = tools != input.variables.end() && !tools->is_null();
    TANDEM_ASSIGN(const ChatTemplate* const chosen, templates->choose(has_tools));
    return render_conversation(*chosen, input, limits);
  }

  const std::shared_ptr<const Tokenizer> own_;  // null: another owns the tokenizer
  const Tokenizer& tokenizer_;
  const ChatTemplates* templates_;
  const SpecialTokensInContent special_tokens_;
  // Shared with codecs of other tokenizers.
  const std::shared_ptr<std::atomic<bool>> stopped_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

std::unique_ptr<TextCodec> make_text_codec(const Tokenizer& tokenizer,
                                           const ChatTemplates* templates,
                                           SpecialTokensInContent special_tokens) {
  return std::make_unique<TokenizerCodec>(tokenizer, templates, special_tokens);
}

std::shared_ptr<const TextCodec> text_with_adapter(const TextCodec& base,
                                                   const GenerationService& service,
                                                   const std::string& adapter) {
  auto tokenizer = adapter.empty() ? nullptr : service.adapter_tokenizer(adapter);
  auto own = tokenizer == nullptr ? nullptr : base.with(tokenizer);
  return own != nullptr
             ? own
             : std::shared_ptr<const TextCodec>(std::shared_ptr<const TextCodec>(), &base);
}

}  // namespace tandem
