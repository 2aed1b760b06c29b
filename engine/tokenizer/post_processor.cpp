#include "engine/tokenizer/post_processor.h"

#include <algorithm>

#include "engine/tokenizer/json_fields.h"
#include "engine/tokenizer/normalizer.h"

namespace tandem {

Result<PostProcessor> PostProcessor::parse(const nlohmann::json& spec, std::size_t vocab_size) {
  PostProcessor result;
  if (!spec.is_null()) TANDEM_TRY(result.parse_into(spec, "post_processor", 0, vocab_size));
  return result;
}

Status PostProcessor::parse_into(const nlohmann::json& spec, const std::string& path, int depth,
                                 std::size_t vocab_size) {
  if (depth > kMaxSequenceDepth) return invalid("{}: sequences nested too deeply", path);
  TANDEM_ASSIGN(Fields fields, Fields::of(spec, path));
  TANDEM_ASSIGN(const std::string type, fields.string("type"));
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") {
    Template parsed;
    TANDEM_ASSIGN(parsed.single, parse_template(fields, "single", "A", vocab_size));
    if (fields.find("pair") == nullptr) {
      parsed.pair.emplace(3);
    } else if (auto pair = parse_template(fields, "pair", "AB", vocab_size)) {
      parsed.pair = *std::move(pair);
    }
    templates_.push_back(std::move(parsed));
    return {};
  }
  if (type != "Sequence") return invalid("{}: post-processor \"{}\" is not supported", path, type);
  TANDEM_ASSIGN(const nlohmann::json* items, fields.array("processors"));
  for (std::size_t i = 0; i < items->size(); ++i)
    TANDEM_TRY(
        parse_into((*items)[i], fmt::format("{}.processors[{}]", path, i), depth + 1, vocab_size));
  return {};
}

// `texts`: the names of the texts, a letter each, which must occur in this order.
Result<PostProcessor::Around> PostProcessor::parse_template(const Fields& fields, const char* name,
                                                            std::string_view texts,
                                                            std::size_t vocab_size) {
  Around result(1);
  TANDEM_ASSIGN(const nlohmann::json* pieces, fields.array(name));
  const nlohmann::json none = nlohmann::json::object();
  const nlohmann::json* table = fields.find("special_tokens");
  TANDEM_ASSIGN(Fields tokens,
                Fields::of(table == nullptr ? none : *table, fields.path_of("special_tokens")));
  for (std::size_t i = 0; i < pieces->size(); ++i) {
    const std::string path = fmt::format("{}.{}[{}]", fields.path(), name, i);
    TANDEM_ASSIGN(Fields piece, Fields::of((*pieces)[i], path));
    if (const nlohmann::json* sequence = piece.find("Sequence")) {
      TANDEM_ASSIGN(Fields which, Fields::of(*sequence, path));
      TANDEM_ASSIGN(const std::string text, which.string("id"));
      const std::size_t next = result.size() - 1;
      if (next == texts.size() || text != texts.substr(next, 1)) {
        return invalid("{}: the text must occur once, as \"{}\"", path,
                       texts.substr(std::min(next, texts.size() - 1), 1));
      }
      result.emplace_back();
      continue;
    }
    const nlohmann::json* special = piece.find("SpecialToken");
    if (special == nullptr) return invalid("{} must be a Sequence or a SpecialToken", path);
    TANDEM_ASSIGN(Fields which, Fields::of(*special, path));
    TANDEM_ASSIGN(const std::string text, which.string("id"));
    const nlohmann::json* entry = tokens.find(text.c_str());
    if (entry == nullptr) return invalid("{}: special_tokens has no \"{}\"", path, text);
    TANDEM_ASSIGN(Fields token, Fields::of(*entry, tokens.path_of(text)));
    TANDEM_ASSIGN(const nlohmann::json* ids, token.array("ids"));
    for (const nlohmann::json& id : *ids) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocab_size)
        return invalid("{}.ids: {} is no token id", token.path(), id.dump());
      result.back().push_back(id.get<TokenId>());
    }
  }
  if (result.size() <= texts.size()) {
    return invalid("{}.{} leaves out the text (Sequence \"{}\")", fields.path(), name,
                   texts.substr(result.size() - 1, 1));
  }
  return result;
}

std::vector<TokenId> PostProcessor::apply(std::vector<TokenId> ids) const {
  for (const Template& t : templates_) {
    ids.insert(ids.begin(), t.single.front().begin(), t.single.front().end());
    ids.insert(ids.end(), t.single.back().begin(), t.single.back().end());
  }
  return ids;
}

Result<std::vector<TokenId>> PostProcessor::apply_to_pair(
    const std::vector<TokenId>& first, const std::vector<TokenId>& second) const {
  if (templates_.size() > 1 || (!templates_.empty() && !templates_.front().pair)) {
    return invalid("the checkpoint's tokenizer joins two texts by a rule that is not supported");
  }
  const Around around = templates_.empty() ? Around(3) : *templates_.front().pair;
  std::vector<TokenId> ids;
  for (const auto* part : {&around[0], &first, &around[1], &second, &around[2]}) {
    ids.insert(ids.end(), part->begin(), part->end());
  }
  return ids;
}

}  // namespace tandem
