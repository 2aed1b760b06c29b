#include "engine/server/messages/request/plain_fields.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/parse_number.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 1024;

std::optional<TokenId> as_token(const json& value) {
  const auto id = as_integer(value);
  if (!id || *id < 0 || *id > std::numeric_limits<TokenId>::max()) return std::nullopt;
  return static_cast<TokenId>(*id);
}

}  // namespace

bool take_tokens(const json& list, std::vector<TokenId>& tokens) {
  tokens.reserve(list.size());
  for (const json& entry : list) {
    const auto id = as_token(entry);
    if (!id) return false;
    tokens.push_back(*id);
  }
  return true;
}

bool take_prompt(const json& value, CompletionCall& call, std::string&) {
  if (value.is_string()) {
    call.prompts.push_back({value.get<std::string>()});
    return true;
  }
  if (!value.is_array() || value.empty()) return false;
  if (value.front().is_number()) {
    call.prompts.emplace_back();
    return take_tokens(value, call.prompts.back().tokens);
  }
  for (const json& entry : value) {
    Prompt prompt;
    if (entry.is_string()) {
      prompt.text = entry.get<std::string>();
    } else if (!entry.is_array() || entry.empty() || !take_tokens(entry, prompt.tokens)) {
      return false;
    }
    call.prompts.push_back(std::move(prompt));
  }
  return true;
}

bool take_texts(const json& value, std::vector<Prompt>& texts) {
  const json list = value.is_array() ? value : json::array({value});
  for (const json& text : list) {
    if (!text.is_string()) return false;
    texts.push_back({text.get<std::string>()});
  }
  return !texts.empty();
}

bool take_ranked(const json& value, CompletionCall& call, std::string&) {
  if (!value.is_array() || value.empty()) return false;
  for (const json& document : value) {
    const auto text = document.is_object() ? document.find("text") : document.end();
    const json& found = text == document.end() ? document : *text;
    if (!found.is_string()) return false;
    call.prompts.push_back({found.get<std::string>()});
  }
  return true;
}

bool take_adapters(const json& value, CompletionCall& call, std::string&) {
  if (!value.is_array() || value.empty() || value.size() > kMostAdapterParts) return false;
  for (const json& entry : value) {
    if (!entry.is_object()) return false;
    AdapterPart part;
    for (const auto& [name, member] : entry.items()) {
      if (name == "name" && member.is_string()) {
        part.name = member.get<std::string>();
      } else if (name == "scale" && member.is_number()) {
        const auto scale = member.get<double>();
        if (!(std::abs(scale) <= std::numeric_limits<float>::max())) return false;
        part.scale = static_cast<float>(scale);
      } else if (name != "scale" || !member.is_null()) {
        return false;
      }
    }
    if (part.name.empty()) return false;
    call.request.adapters.push_back(std::move(part));
  }
  return true;
}

bool take_encoding_format(const json& value, CompletionCall& call, std::string&) {
  call.embedding.base64 = value == "base64";
  return call.embedding.base64 || value == "float";
}

bool take_pooling(const json& value, CompletionCall& call, std::string&) {
  call.request.pooling = value == "mean" ? Pooling::mean : Pooling::last;
  return value == "mean" || value == "last";
}

bool take_stop(const json& value, CompletionCall& call, std::string&) {
  if (value.is_array() && value.size() > kMaxStops) return false;
  const json list = value.is_array() ? value : json::array({value});
  for (const json& stop : list) {
    if (!stop.is_string()) return false;
    const auto& text = stop.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxStopBytes) return false;
    call.request.stop.push_back(text);
  }
  return true;
}

bool take_logit_bias(const json& value, CompletionCall& call, std::string&) {
  if (!value.is_object()) return false;
  for (const auto& [key, bias] : value.items()) {
    const TokenId id = parse_number<TokenId>(key).value_or(-1);
    if (id < 0 || !bias.is_number()) return false;
    const double number = bias.get<double>();
    if (!(number >= -100 && number <= 100)) return false;
    call.request.sampling.logit_bias.emplace_back(id, static_cast<float>(number));
  }
  return true;
}

bool take_stream_options(const json& value, CompletionCall& call, std::string& /*reason*/) {
  if (!value.is_object()) return false;
  call.has_stream_options = true;
  const auto take = [&value](const char* name, bool& into) {
    const auto found = value.find(name);
    if (found == value.end() || found->is_null()) return true;
    if (!found->is_boolean()) return false;
    into = found->get<bool>();
    return true;
  };
  bool in_each = false;
  if (!take("include_usage", call.include_usage) || !take("continuous_usage_stats", in_each)) {
    return false;
  }
  call.usage_in_each_chunk = call.include_usage && in_each;  // as in vLLM
  return true;
}

}  // namespace tandem
