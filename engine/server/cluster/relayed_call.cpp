#include "engine/server/cluster/relayed_call.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "engine/server/messages/ordered_json.h"
#include "engine/server/messages/request/request_fields.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxIdBytes = 128;
constexpr std::size_t kMaxWeightsBytes = 128;

const json* member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool is_id(const std::string& id) {
  return !id.empty() && id.size() <= kMaxIdBytes && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._:-").find(c) != std::string_view::npos;
  });
}

ApiError bad_sent(std::size_t index, std::string_view member) {
  return bad_field("sent",
                   "'sent': choice {}: '{}' is not what it must be: 'tokens' is a list of token "
                   "ids, 'finish' a string or null, 'events' a number from 0 on",
                   index, member);
}

MaybeError parse_choice(const json& value, std::size_t index, SentChoice& choice) {
  const json* const tokens = value.is_object() ? member(value, "tokens") : nullptr;
  if (tokens == nullptr || !tokens->is_array()) return bad_sent(index, "tokens");
  choice.generated.tokens.reserve(tokens->size());
  for (const json& each : *tokens) {
    const auto id = as_integer(each);
    if (!id || *id < 0 || *id > std::numeric_limits<TokenId>::max()) {
      return bad_sent(index, "tokens");
    }
    choice.generated.tokens.push_back(static_cast<TokenId>(*id));
  }
  if (const json* const finish = member(value, "finish"); finish != nullptr) {
    if (!finish->is_null() && !finish->is_string()) return bad_sent(index, "finish");
    choice.generated.is_over = finish->is_string();
  }
  if (const json* const events = member(value, "events"); events != nullptr && !events->is_null()) {
    const auto count = as_integer(*events);
    if (!count || *count < 0) return bad_sent(index, "events");
    choice.events = static_cast<std::size_t>(*count);
  }
  return std::nullopt;
}

// Parses {"base": "...", "adapter": "..."}.
MaybeError parse_weights(const json& value, RelayedWeights& weights) {
  WeightsIdentity wanted;
  for (const auto& [name, text] :
       {std::pair("base", &wanted.base), std::pair("adapter", &wanted.adapter)}) {
    const json* const given = value.is_object() ? member(value, name) : nullptr;
    const bool fits = given != nullptr && given->is_string() &&
                      given->get_ref<const std::string&>().size() <= kMaxWeightsBytes;
    if (!fits) {
      return bad_field("weights", "'weights': '{}' must be a text of at most {} bytes", name,
                       kMaxWeightsBytes);
    }
    *text = given->get<std::string>();
  }
  weights.want(std::move(wanted));
  return std::nullopt;
}

// Derives a seed for each prompt from the router's single seed, by the finaliser of SplitMix64.
std::uint64_t seed_of(std::uint64_t seed, std::size_t prompt) {
  if (prompt == 0) return seed;
  std::uint64_t z = seed + 0xd1b54a32d192ed03ULL * static_cast<std::uint64_t>(prompt);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

bool has_said(const GeneratedBefore& before) {
  return before.is_over || !before.tokens.empty();
}

}  // namespace

MaybeError parse_relayed(std::string_view bytes, const json& body, RelayedCall& call,
                         std::string& request) {
  constexpr std::string_view kRequest = "request";
  const json* const wrapped = member(body, "request");
  if (wrapped == nullptr || !wrapped->is_object()) {
    return bad_field("request", "'request' must be the client's body, an object");
  }
  request = parse_members_in_order(bytes, {&kRequest, 1}).at("request").dump();
  const json* const path = member(body, "path");
  const std::string asked =
      path != nullptr && path->is_string() ? path->get<std::string>() : std::string();
  call.chat = asked == "/v1/chat/completions";
  if (!call.chat && asked != "/v1/completions") {
    return bad_field("path", "'path' must be /v1/completions or /v1/chat/completions");
  }
  const json* const id = member(body, "id");
  if (id == nullptr || !id->is_string() || !is_id(id->get_ref<const std::string&>())) {
    return bad_field("id",
                     "'id' must be a string of 1 to {} letters, digits, '.', '_', ':' and '-'",
                     kMaxIdBytes);
  }
  call.id = id->get<std::string>();
  const json* const created = member(body, "created");
  const auto seconds = created == nullptr ? std::nullopt : as_integer(*created);
  if (!seconds || *seconds < 0) {
    return bad_field("created", "'created' must be a number of seconds since the epoch");
  }
  call.created = *seconds;
  const json* const seed = member(body, "seed");
  if (seed == nullptr || !seed->is_number_unsigned()) {
    return bad_field("seed", "'seed' must be a whole number from 0 to 2^64 - 1");
  }
  call.seed = seed->get<std::uint64_t>();
  const json* const weights = member(body, "weights");
  if (weights != nullptr && !weights->is_null()) {
    if (auto error = parse_weights(*weights, call.weights)) return error;
  }
  const json* const sent = member(body, "sent");
  if (sent == nullptr || sent->is_null()) return std::nullopt;
  if (!sent->is_array())
    return bad_field("sent", "'sent' must be a list of what choices have said");
  call.sent.resize(sent->size());
  for (std::size_t i = 0; i < call.sent.size(); ++i) {
    if (auto error = parse_choice((*sent)[i], i, call.sent[i])) return error;
  }
  return std::nullopt;
}

MaybeError take_up(const RelayedCall& call, bool is_streamed,
                   std::span<GenerationRequest> requests) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SamplingParams& sampling = requests[i].sampling;
    if (!sampling.seed) sampling.seed = seed_of(call.seed, i);
  }
  if (call.sent.empty()) return std::nullopt;
  if (!is_streamed) {
    return bad_field("sent", "'sent' is of streams: an answer that is not one begins anew");
  }
  const auto n = static_cast<std::size_t>(requests.front().n);
  if (call.sent.size() != requests.size() * n) {
    return bad_field("sent", "'sent' has {} choices, and the request {}", call.sent.size(),
                     requests.size() * n);
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    GenerationRequest& request = requests[i];
    for (const SentChoice& choice : std::span(call.sent).subspan(i * n, n)) {
      request.before.push_back(choice.generated);
    }
    // The prompt's log probabilities were sent with the first part of each choice.
    if (std::all_of(request.before.begin(), request.before.end(), has_said)) {
      request.prompt_logprobs = false;
    }
  }
  return std::nullopt;
}

}  // namespace tandem
