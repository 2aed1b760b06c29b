// Builds a Tokenizer from tokenizer.json. The file is untrusted: ids, lengths and nesting are
// limited, and unsupported features are refused by name.
#include <new>
#include <nlohmann/json.hpp>

#include "base/json/json_text.h"
#include "engine/tokenizer/json_fields.h"
#include "engine/tokenizer/tokenizer_impl.h"

namespace tandem {
namespace {

// The largest published vocabularies have about 262,000 tokens. The table is as long as the highest
// id, so a single absurd id must not make it huge.
constexpr std::int64_t kMaxId = (std::int64_t{1} << 22) - 1;
constexpr std::size_t kMaxAddedTokenBytes = 1024;  // limits the search for added tokens

Result<Bpe::Vocabulary> parse_vocabulary(const Fields& model) {
  const nlohmann::json* spec = model.find("vocab");
  if (spec == nullptr || !spec->is_object())
    return invalid("{} must be an object", model.path_of("vocab"));
  Bpe::Vocabulary vocabulary;
  vocabulary.reserve(spec->size());
  for (const auto& [token, id] : spec->items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxId))
      return invalid("model.vocab[\"{}\"] must be an integer from 0 to {}", token, kMaxId);
    vocabulary.emplace(token, id.get<TokenId>());
  }
  if (vocabulary.empty()) return invalid("model.vocab is empty");
  return vocabulary;
}

// Accepts both spellings: "left right" and ["left", "right"].
Result<std::vector<Bpe::Merge>> parse_merges(const Fields& model) {
  TANDEM_ASSIGN(const nlohmann::json* spec, model.array("merges"));
  std::vector<Bpe::Merge> merges;
  merges.reserve(spec->size());
  for (std::size_t i = 0; i < spec->size(); ++i) {
    const nlohmann::json& item = (*spec)[i];
    if (item.is_string()) {
      const auto& text = item.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        return invalid("model.merges[{}] must be two tokens with a space between", i);
      merges.push_back({text.substr(0, space), text.substr(space + 1)});
    } else if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
      merges.push_back({item[0].get<std::string>(), item[1].get<std::string>()});
    } else {
      return invalid("model.merges[{}] must be a string or a pair of strings", i);
    }
  }
  return merges;
}

Status refuse_affixes(const Fields& model) {
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const nlohmann::json* affix = model.find(name);
    if (affix != nullptr && *affix != "")
      return invalid("{} {} is not supported", model.path_of(name), affix->dump());
  }
  const nlohmann::json* dropout = model.find("dropout");
  if (dropout != nullptr && *dropout != 0.0)
    return invalid("model.dropout {} is not supported", dropout->dump());
  return {};
}

Result<Bpe> parse_model(const Fields& model, const Bpe::Vocabulary& vocabulary, bool byte_level) {
  TANDEM_TRY(refuse_affixes(model));
  TANDEM_ASSIGN(const std::vector<Bpe::Merge> merges, parse_merges(model));
  BpeOptions options;
  options.byte_level = byte_level;
  TANDEM_ASSIGN(options.byte_fallback, model.boolean("byte_fallback", false));
  TANDEM_ASSIGN(options.fuse_unk, model.boolean("fuse_unk", false));
  TANDEM_ASSIGN(options.ignore_merges, model.boolean("ignore_merges", false));
  if (model.find("unk_token") != nullptr) {
    TANDEM_ASSIGN(const std::string unk, model.string("unk_token"));
    const auto it = vocabulary.find(unk);
    if (it == vocabulary.end()) return invalid("model.unk_token \"{}\" is not in the vocab", unk);
    options.unk = it->second;
  }
  return Bpe::build(vocabulary, merges, options);
}

Result<AddedToken> parse_added_token(const nlohmann::json& spec, std::size_t index) {
  TANDEM_ASSIGN(Fields fields, Fields::of(spec, fmt::format("added_tokens[{}]", index)));
  AddedToken token;
  TANDEM_ASSIGN(token.content, fields.string("content"));
  TANDEM_ASSIGN(const std::int64_t id, fields.integer("id", kMaxId));
  token.id = static_cast<TokenId>(id);
  TANDEM_ASSIGN(token.single_word, fields.boolean("single_word", false));
  TANDEM_ASSIGN(token.lstrip, fields.boolean("lstrip", false));
  TANDEM_ASSIGN(token.rstrip, fields.boolean("rstrip", false));
  TANDEM_ASSIGN(token.special, fields.boolean("special", false));
  TANDEM_ASSIGN(token.normalized, fields.boolean("normalized", !token.special));
  if (token.content.size() > kMaxAddedTokenBytes)
    return invalid("{}.content has {} bytes; at most {} are allowed", fields.path(),
                   token.content.size(), kMaxAddedTokenBytes);
  return token;
}

Result<std::vector<AddedToken>> parse_added_tokens(const Fields& root) {
  std::vector<AddedToken> tokens;
  const nlohmann::json* spec = root.find("added_tokens");
  if (spec == nullptr) return tokens;
  if (!spec->is_array()) return invalid("{} must be a list", root.path_of("added_tokens"));
  for (std::size_t i = 0; i < spec->size(); ++i) {
    TANDEM_ASSIGN(AddedToken token, parse_added_token((*spec)[i], i));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Calls `make`, whose exceptions become errors.
template <typename Make>
auto guarded(const Make& make) -> decltype(make()) {
  try {
    return make();
  } catch (const nlohmann::json::exception& e) {
    return invalid("not JSON that can be read: {}", e.what());
  } catch (const std::bad_alloc&) {
    return error(StatusCode::resource_exhausted, "no memory for the tokenizer");
  }
}

}  // namespace

// Registers a token under its id. A token with two ids and an id with two tokens are both refused.
Status Tokenizer::Impl::enter(TokenId id, const std::string& text) {
  const auto i = static_cast<std::size_t>(id);
  if (i >= tokens.size()) tokens.resize(i + 1);
  if (tokens[i].present && tokens[i].text != text)
    return invalid("tokens \"{}\" and \"{}\" have the same id {}", tokens[i].text, text, id);
  const auto [it, fresh] = ids.emplace(text, id);
  if (!fresh && it->second != id)
    return invalid("token \"{}\" has two ids, {} and {}", text, it->second, id);
  tokens[i].text = text;
  tokens[i].present = true;
  return {};
}

Status Tokenizer::Impl::enter_added(const std::vector<AddedToken>& added) {
  for (const AddedToken& token : added) {
    TANDEM_TRY(enter(token.id, token.content));
    Entry& entry = tokens[static_cast<std::size_t>(token.id)];
    entry.special = entry.special || token.special;
    if (!token.normalized) {
      raw_added.add(token.content, token);
    } else {
      TANDEM_ASSIGN(const std::string text, normalizer.apply(token.content));
      if (text.size() > kMaxAddedTokenBytes)
        return invalid("added token {} has {} bytes when normalized; at most {} are allowed",
                       token.id, text.size(), kMaxAddedTokenBytes);
      normalized_added.add(text, token);
    }
  }
  return {};
}

Status Tokenizer::Impl::fill(const nlohmann::json& json) {
  TANDEM_ASSIGN(Fields root, Fields::of(json, "tokenizer.json"));
  auto part = [&](const char* name) {
    const nlohmann::json* found = root.find(name);
    return found == nullptr ? nlohmann::json() : *found;
  };
  const nlohmann::json* model_spec = root.find("model");
  if (model_spec == nullptr) return invalid("model is missing");
  TANDEM_ASSIGN(Fields model, Fields::of(*model_spec, "model"));
  if (model.find("type") != nullptr) {  // absent in the oldest files
    TANDEM_ASSIGN(const std::string type, model.string("type"));
    if (type != "BPE") return invalid("model \"{}\" is not supported; only BPE is", type);
  }
  TANDEM_ASSIGN(normalizer, Normalizer::parse(part("normalizer")));
  TANDEM_ASSIGN(pre_tokenizer, PreTokenizer::parse(part("pre_tokenizer")));
  TANDEM_ASSIGN(decoder, TokenDecoder::parse(part("decoder")));
  TANDEM_ASSIGN(const Bpe::Vocabulary vocabulary, parse_vocabulary(model));
  for (const auto& [token, id] : vocabulary) TANDEM_TRY(enter(id, token));
  TANDEM_ASSIGN(bpe, parse_model(model, vocabulary, pre_tokenizer.byte_level()));
  TANDEM_ASSIGN(const std::vector<AddedToken> added, parse_added_tokens(root));
  TANDEM_TRY(enter_added(added));
  TANDEM_ASSIGN(post_processor, PostProcessor::parse(part("post_processor"), tokens.size()));
  return {};
}

Result<std::unique_ptr<const Tokenizer::Impl>> Tokenizer::Impl::parse(std::string_view text) {
  if (nests_deeper_than(text, kMaxJsonDepth))
    return invalid("JSON nested deeper than {}", kMaxJsonDepth);
  return guarded([&] { return made_of(nlohmann::json::parse(text)); });
}

Result<std::unique_ptr<const Tokenizer::Impl>> Tokenizer::Impl::of(const nlohmann::json& json) {
  return guarded([&] { return made_of(json); });
}

Result<std::unique_ptr<const Tokenizer::Impl>> Tokenizer::Impl::made_of(
    const nlohmann::json& json) {
  auto impl = std::make_unique<Impl>();
  TANDEM_TRY(impl->fill(json));
  return std::unique_ptr<const Impl>(std::move(impl));
}

}  // namespace tandem
