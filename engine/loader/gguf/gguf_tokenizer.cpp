#include "engine/loader/gguf/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text/shown_text.h"
#include "base/text/utf8.h"
#include "engine/loader/gguf/pre_tokenizers.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxTokenBytes = 1024;
constexpr std::size_t kMaxSplitBytes = 256;  // of a token that merges make
constexpr std::size_t kMaxMerges = std::size_t{1} << 22;
constexpr std::size_t kMaxTemplates = 64;
constexpr std::string_view kSpace = "\u2581";  // SentencePiece's sign for a space

// In the format's numbering ('tokenizer.ggml.token_type').
enum class TokenType : std::int64_t { normal = 1, unknown, control, user_defined, unused, byte };

struct Token {
  std::string_view text;
  TokenType type = TokenType::normal;
  double score = 0;

  bool is_added() const { return type == TokenType::control || type == TokenType::user_defined; }
};

Result<std::vector<Token>> read_tokens(const GgufModel& model) {
  TANDEM_ASSIGN(const auto texts, model.texts("tokenizer.ggml.tokens"));
  if (texts.empty()) return invalid("'tokenizer.ggml.tokens' is missing");
  const auto list_of_tokens = [&](std::string_view key) -> Result<const GgufValue*> {
    const GgufValue* const list = model.find(key);
    if (list == nullptr || (list->is_list() && list->count() == texts.size())) return list;
    return invalid("'{}' is no list of {}, one for each token", key, texts.size());
  };
  TANDEM_ASSIGN(const GgufValue* const types, list_of_tokens("tokenizer.ggml.token_type"));
  TANDEM_ASSIGN(const GgufValue* const scores, list_of_tokens("tokenizer.ggml.scores"));
  std::vector<Token> tokens;
  tokens.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Token token{texts[i]};
    if (token.text.size() > kMaxTokenBytes || !utf8::valid(token.text)) {
      return invalid("token {} is not UTF-8 of at most {} bytes", i, kMaxTokenBytes);
    }
    if (types != nullptr) {
      const auto type = types->integer(i);
      if (!type || *type < 1 || *type > static_cast<std::int64_t>(TokenType::byte)) {
        return invalid("token {} has a type that is unknown", i);
      }
      token.type = TokenType(*type);
    }
    if (scores != nullptr) {
      const auto score = scores->number(i);
      if (!score) return invalid("token {} has a score that is no number", i);
      token.score = *score;
    }
    tokens.push_back(token);
  }
  return tokens;
}

// The text of the token that 'tokenizer.ggml.NAME_token_id' names; nothing if the key is absent.
Result<std::optional<std::string>> named_token(const GgufModel& model, std::string_view name,
                                               std::span<const std::string_view> texts) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  TANDEM_ASSIGN(const auto id, model.integer(key));
  if (!id) return std::optional<std::string>();
  if (*id < 0 || static_cast<std::size_t>(*id) >= texts.size()) {
    return invalid("'{}' is {}, and there are {} tokens", key, *id, texts.size());
  }
  return std::optional<std::string>(texts[static_cast<std::size_t>(*id)]);
}

// BOS before each text and EOS behind it, where the file asks for them.
Result<Json> post_processor(const GgufModel& model, const std::vector<Token>& tokens,
                            bool adds_bos) {
  Json single = Json::array();
  Json special = Json::object();
  const auto add = [&](std::string_view name, bool by_default) -> Status {
    TANDEM_ASSIGN(const auto wanted,
                  model.boolean(fmt::format("tokenizer.ggml.add_{}_token", name)));
    TANDEM_ASSIGN(const auto id, model.integer(fmt::format("tokenizer.ggml.{}_token_id", name)));
    if (!wanted.value_or(by_default) || !id) return {};
    if (*id < 0 || static_cast<std::size_t>(*id) >= tokens.size()) {
      return invalid("'tokenizer.ggml.{}_token_id' is {}, and there are {} tokens", name, *id,
                     tokens.size());
    }
    const auto index = static_cast<std::size_t>(*id);
    const std::string text(tokens[index].text);
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    special[text] = {{"id", text}, {"ids", {index}}, {"tokens", {text}}};
    return {};
  };
  TANDEM_TRY(add("bos", adds_bos));
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  TANDEM_TRY(add("eos", false));
  if (single.size() == 1) return Json();
  return Json{{"type", "TemplateProcessing"},
              {"single", std::move(single)},
              {"pair", Json::array()},
              {"special_tokens", std::move(special)}};
}

Json added_token(std::size_t id, const std::string& text, TokenType type, bool normalized,
                 bool takes_spaces = false) {
  return {{"id", id},
          {"content", text},
          {"lstrip", false},
          {"rstrip", takes_spaces},
          {"special", type == TokenType::control},
          {"normalized", normalized},
          {"single_word", false}};
}

Result<Json> byte_level(const GgufModel& model, const std::vector<Token>& tokens) {
  TANDEM_ASSIGN(const auto pre_name, model.text("tokenizer.ggml.pre"));
  TANDEM_ASSIGN(const PreTokenizerRow pre, find_pre_tokenizer(pre_name.value_or("default")));
  Json vocabulary = Json::object();
  Json added = Json::array();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const Token& token = tokens[id];
    const std::string text(token.text);
    if (token.is_added()) {
      added.push_back(added_token(id, text, token.type, false));
    } else if (token.type != TokenType::unused) {
      vocabulary[text] = id;
    }
  }
  TANDEM_ASSIGN(const auto merges, model.texts("tokenizer.ggml.merges"));
  Json all_merges = Json::array();
  for (const std::string_view merge : merges) {
    if (!utf8::valid(merge)) return invalid("'tokenizer.ggml.merges' is not UTF-8");
    all_merges.push_back(std::string(merge));
  }
  Json steps = Json::array();
  for (const std::string_view pattern : pre.patterns) {
    if (pattern.empty()) continue;
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", std::string(pattern)}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  TANDEM_ASSIGN(Json post, post_processor(model, tokens, pre.adds_bos));
  return Json{{"normalizer", pre.composes ? Json{{"type", "NFC"}} : Json()},
              {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}},
              {"post_processor", std::move(post)},
              {"decoder", {{"type", "ByteLevel"}}},
              {"added_tokens", std::move(added)},
              {"model",
               {{"type", "BPE"},
                {"ignore_merges", pre.ignores_merges},
                {"vocab", std::move(vocabulary)},
                {"merges", std::move(all_merges)}}}};
}

std::string with_signs(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == ' ') {
      result += kSpace;
    } else {
      result += c;
    }
  }
  return result;
}

// SentencePiece joins the neighbours whose token has the highest score: each way to make a token
// of two others is a merge, ranked by the score of what it makes. Among merges of one score, those
// with the longer left part come first, as transformers orders them.
Result<Json> merges_by_score(const std::vector<Token>& tokens) {
  std::unordered_map<std::string_view, bool> parts;
  for (const Token& token : tokens) {
    if (token.type == TokenType::normal) parts.emplace(token.text, true);
  }
  struct Merge {
    std::string_view left, right;
    double score;
  };
  std::vector<Merge> merges;
  for (const Token& token : tokens) {
    if (token.type != TokenType::normal) continue;
    if (token.text.size() > kMaxSplitBytes) {
      return invalid("a token has {} bytes; at most {} are joined by scores", token.text.size(),
                     kMaxSplitBytes);
    }
    for (std::size_t at = token.text.size(); at-- > 1;) {
      if ((static_cast<unsigned char>(token.text[at]) & 0xC0U) == 0x80U)
        continue;  // in a character
      const std::string_view left = token.text.substr(0, at);
      const std::string_view right = token.text.substr(at);
      if (!parts.contains(left) || !parts.contains(right)) continue;
      if (merges.size() == kMaxMerges) {
        return invalid("the scores of the tokens make more than {} merges", kMaxMerges);
      }
      merges.push_back({left, right, token.score});
    }
  }
  std::ranges::stable_sort(merges,
                           [](const Merge& a, const Merge& b) { return a.score > b.score; });
  Json result = Json::array();
  for (const Merge& merge : merges) {
    result.push_back(Json::array({std::string(merge.left), std::string(merge.right)}));
  }
  return result;
}

// Microsoft's tokenizer of Phi-3 drops the white space behind these.
bool takes_spaces_in_phi3(const Token& token) {
  if (token.text == "<unk>" || token.text == "<s>" || token.text == "<|endoftext|>") return false;
  return token.type == TokenType::control || token.text == "</s>";
}

Json sentence_piece_steps(bool prepends, bool decodes) {
  const std::string space(kSpace);
  const auto replace = [](const std::string& from, const std::string& to) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  Json steps = Json::array();
  if (!decodes) {
    if (prepends) steps.push_back({{"type", "Prepend"}, {"prepend", space}});
    steps.push_back(replace(" ", space));
    return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  }
  steps = {replace(space, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (prepends) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

Result<Json> sentence_piece(const GgufModel& model, const std::vector<Token>& tokens) {
  TANDEM_ASSIGN(const auto removes, model.boolean("tokenizer.ggml.remove_extra_whitespaces"));
  if (removes.value_or(false) || model.find("tokenizer.ggml.precompiled_charsmap") != nullptr) {
    return invalid("the tokenizer normalises its text as SentencePiece does, not supported");
  }
  TANDEM_ASSIGN(const auto space_prefix, model.boolean("tokenizer.ggml.add_space_prefix"));
  const bool prepends = space_prefix.value_or(true);
  TANDEM_ASSIGN(const auto architecture, model.text("general.architecture"));
  const bool is_phi3 = architecture == "phi3";
  Json vocabulary = Json::object();
  Json added = Json::array();
  Json unknown;
  bool has_bytes = false;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const Token& token = tokens[id];
    if (token.type == TokenType::unused) continue;
    // Spaces within tokens are written as such in those of users alone.
    const bool by_user = token.type == TokenType::user_defined;
    const std::string text = by_user ? with_signs(token.text) : std::string(token.text);
    vocabulary[text] = id;
    has_bytes |= token.type == TokenType::byte;
    if (token.type == TokenType::unknown) unknown = text;
    if (token.type == TokenType::normal || token.type == TokenType::byte) continue;
    const bool special = token.type != TokenType::user_defined;
    const bool normalized = by_user && !prepends && text.find(kSpace) != std::string::npos;
    added.push_back(added_token(id, text, special ? TokenType::control : token.type, normalized,
                                is_phi3 && takes_spaces_in_phi3(token)));
  }
  TANDEM_ASSIGN(Json post, post_processor(model, tokens, true));
  TANDEM_ASSIGN(Json merges, merges_by_score(tokens));
  return Json{{"normalizer", sentence_piece_steps(prepends, false)},
              {"pre_tokenizer", Json()},
              {"post_processor", std::move(post)},
              {"decoder", sentence_piece_steps(prepends, true)},
              {"added_tokens", std::move(added)},
              {"model",
               {{"type", "BPE"},
                {"unk_token", std::move(unknown)},
                {"fuse_unk", true},
                {"byte_fallback", has_bytes},
                {"vocab", std::move(vocabulary)},
                {"merges", std::move(merges)}}}};
}

}  // namespace

Result<Json> gguf_tokenizer(const GgufModel& model) {
  TANDEM_ASSIGN(const auto kind, model.text("tokenizer.ggml.model"));
  if (!kind) return invalid("'tokenizer.ggml.model' is missing");
  TANDEM_ASSIGN(const std::vector<Token> tokens, read_tokens(model));
  if (*kind == "gpt2") return byte_level(model, tokens);
  if (*kind == "llama") return sentence_piece(model, tokens);
  return invalid("'tokenizer.ggml.model' is '{}'; gpt2 and llama are supported", shown_text(*kind));
}

Result<Json> gguf_tokenizer_config(const GgufModel& model) {
  TANDEM_ASSIGN(const auto texts, model.texts("tokenizer.ggml.tokens"));
  Json config = Json::object();
  constexpr std::array<std::pair<const char*, const char*>, 4> kNames = {
      {{"bos", "bos_token"},
       {"eos", "eos_token"},
       {"unknown", "unk_token"},
       {"padding", "pad_token"}}};
  for (const auto& [name, field] : kNames) {
    TANDEM_ASSIGN(const auto text, named_token(model, name, texts));
    if (text && utf8::valid(*text)) config[field] = *text;
  }
  TANDEM_ASSIGN(const auto names, model.texts("tokenizer.chat_templates"));
  Json templates = Json::array();
  const auto add = [&](const std::string& name, const std::string& key) -> Status {
    TANDEM_ASSIGN(const auto source, model.text(key));
    if (!source) return {};
    if (!utf8::valid(*source)) return invalid("'{}' is not UTF-8", shown_text(key));
    templates.push_back({{"name", name}, {"template", std::string(*source)}});
    return {};
  };
  TANDEM_TRY(add("default", "tokenizer.chat_template"));
  std::set<std::string_view> added;
  for (const std::string_view name : names) {
    if (!added.insert(name).second) continue;
    if (added.size() > kMaxTemplates) {
      return invalid("'tokenizer.chat_templates' has more than {} names", kMaxTemplates);
    }
    if (!utf8::valid(name)) return invalid("'tokenizer.chat_templates' is not UTF-8");
    TANDEM_TRY(add(std::string(name), fmt::format("tokenizer.chat_template.{}", name)));
  }
  if (!templates.empty()) config["chat_template"] = std::move(templates);
  return config;
}

}  // namespace tandem
