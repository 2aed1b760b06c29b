#include "engine/tokenizer/post_processor.h"

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
    TANDEM_ASSIGN(Template parsed, parse_template(fields, vocab_size));
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

Result<PostProcessor::Template> PostProcessor::parse_template(const Fields& fields,
                                                              std::size_t vocab_size) {
  Template result;
  bool text_seen = false;
  TANDEM_ASSIGN(const nlohmann::json* pieces, fields.array("single"));
  const nlohmann::json none = nlohmann::json::object();
  const nlohmann::json* table = fields.find("special_tokens");
  TANDEM_ASSIGN(Fields tokens,
                Fields::of(table == nullptr ? none : *table, fields.path_of("special_tokens")));
  for (std::size_t i = 0; i < pieces->size(); ++i) {
    const std::string path = fmt::format("{}.single[{}]", fields.path(), i);
    TANDEM_ASSIGN(Fields piece, Fields::of((*pieces)[i], path));
    if (const nlohmann::json* sequence = piece.find("Sequence")) {
      TANDEM_ASSIGN(Fields which, Fields::of(*sequence, path));
      TANDEM_ASSIGN(const std::string name, which.string("id"));
      if (name != "A" || text_seen) return invalid("{}: the text must occur once, as \"A\"", path);
      text_seen = true;
      continue;
    }
    const nlohmann::json* special = piece.find("SpecialToken");
    if (special == nullptr) return invalid("{} must be a Sequence or a SpecialToken", path);
    TANDEM_ASSIGN(Fields which, Fields::of(*special, path));
    TANDEM_ASSIGN(const std::string name, which.string("id"));
    const nlohmann::json* entry = tokens.find(name.c_str());
    if (entry == nullptr) return invalid("{}: special_tokens has no \"{}\"", path, name);
    TANDEM_ASSIGN(Fields token, Fields::of(*entry, tokens.path_of(name)));
    TANDEM_ASSIGN(const nlohmann::json* ids, token.array("ids"));
    for (const nlohmann::json& id : *ids) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocab_size)
        return invalid("{}.ids: {} is no token id", token.path(), id.dump());
      (text_seen ? result.after : result.before).push_back(id.get<TokenId>());
    }
  }
  if (!text_seen) return invalid("{}.single leaves out the text (Sequence \"A\")", fields.path());
  return result;
}

std::vector<TokenId> PostProcessor::apply(std::vector<TokenId> ids) const {
  for (const Template& t : templates_) {
    ids.insert(ids.begin(), t.before.begin(), t.before.end());
    ids.insert(ids.end(), t.after.begin(), t.after.end());
  }
  return ids;
}

}  // namespace tandem
