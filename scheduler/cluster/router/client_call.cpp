#include "scheduler/cluster/router/client_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "base/http/sse.h"
#include "base/json/json_text.h"
#include "base/parse_number.h"
#include "scheduler/cluster/members/cluster.h"
#include "scheduler/cluster/router/prompt_reader.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kCompletions = "/v1/completions";
constexpr std::size_t kMostChoices = 4096;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
// Bits of a seed that every JSON reader takes without loss.
constexpr std::uint64_t kSeedBits = 53;

std::uint64_t random_bits() {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return generator();
}

std::int64_t whole_number(const json& body, const char* field) {
  const auto found = body.find(field);
  if (found == body.end() || !found->is_number_integer()) return 0;
  constexpr std::int64_t kMost = 1'000'000'000;
  if (found->is_number_unsigned()) {
    return static_cast<std::int64_t>(
        std::min<std::uint64_t>(found->get<std::uint64_t>(), std::uint64_t{kMost}));
  }
  return std::clamp<std::int64_t>(found->get<std::int64_t>(), 0, kMost);
}

// The hash key of this process; see PromptHasher.
std::uint64_t prompt_key() {
  static const std::uint64_t key = random_bits();
  return key;
}

bool is_true(const json& body, const char* field) {
  const auto found = body.find(field);
  return found != body.end() && found->is_boolean() && found->get<bool>();
}

// In a list, each text or list of ids is a prompt; a list of ids is one prompt.
std::size_t num_prompts(const json& body) {
  const auto prompt = body.find("prompt");
  if (prompt == body.end() || !prompt->is_array() || prompt->empty()) return 1;
  return prompt->front().is_number() ? 1 : prompt->size();
}

// The names of the first ones; the engine refuses more, and what has no name.
void read_adapters(const json& list, std::vector<std::string>& names) {
  for (const json& entry : list) {
    if (names.size() == kMostAdaptersOfRequest) break;
    if (!entry.is_object()) continue;
    const auto name = entry.find("name");
    if (name != entry.end() && name->is_string()) names.push_back(name->get<std::string>());
  }
}

double milliseconds_header(const HttpRequest& request, const char* name) {
  const double value = parse_number<double>(request.header(name)).value_or(0);
  return value > 0 && value < 1e9 ? value / 1e3 : 0;
}

}  // namespace

std::optional<ErrorEnvelope> read_client_call(const HttpRequest& request, ClientCall& call) {
  const auto refused = [](std::string message) {
    return ErrorEnvelope{400, std::move(message), "invalid_json", 0};
  };
  std::string_view text = request.body;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  // A parser stops at a zero byte, and bytes after it would be spliced in unread.
  if (text.find('\0') != std::string_view::npos) return refused("The body has a byte 0 in it");
  if (nests_deeper_than(text, kMaxJsonDepth)) {
    return refused(fmt::format("The body's JSON is nested more than {} deep", kMaxJsonDepth));
  }
  if (json_tree_bytes(text) > kMaxJsonTreeBytes) {
    return ErrorEnvelope{
        413,
        fmt::format("The body's JSON holds so many values that they would take more "
                    "than {} MB; send fewer in one request",
                    kMaxJsonTreeBytes >> 20),
        "body_too_long", 0};
  }
  const json body = json::parse(text, nullptr, false);
  if (body.is_discarded()) return refused("The body is not valid JSON");
  if (!body.is_object()) {
    return refused(fmt::format("The body must be a JSON object, not {}", body.type_name()));
  }
  call.path = request.path;
  call.body = text;
  const bool chat = request.path == kChat;
  call.relayed = chat || request.path == kCompletions;
  if (const auto model = body.find("model"); model != body.end() && model->is_string()) {
    call.model = model->get<std::string>();
  }
  call.prompt_tokens = static_cast<std::int64_t>(text.size()) / kBytesPerToken + 1;
  if (!call.relayed) return std::nullopt;
  std::string weights = call.model;
  if (const auto adapters = body.find("adapters");
      adapters != body.end() && adapters->is_array() && !adapters->empty()) {
    read_adapters(*adapters, call.adapters);
    weights += adapters->dump(-1, ' ', false, json::error_handler_t::replace);
  }
  call.prompt = read_prompt_blocks(body, chat, weights, prompt_key());
  call.stream = is_true(body, "stream");
  if (const auto options = body.find("stream_options");
      options != body.end() && options->is_object()) {
    call.include_usage = is_true(*options, "include_usage");
  }
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(1, whole_number(body, "n")));
  call.choices = std::min(kMostChoices, n * (chat ? 1 : num_prompts(body)));
  call.max_tokens = whole_number(body, "max_completion_tokens");
  if (call.max_tokens == 0) call.max_tokens = whole_number(body, "max_tokens");
  call.slo_ttft_s = milliseconds_header(request, "x-slo-ttft-ms");
  call.slo_token_s = milliseconds_header(request, "x-slo-tpot-ms");
  call.id = fmt::format("{}{:016x}{:08x}", chat ? "chatcmpl-" : "cmpl-", random_bits(),
                        random_bits() >> 32);
  call.created = std::chrono::duration_cast<std::chrono::seconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count();
  call.seed = random_bits() >> (64 - kSeedBits);
  return std::nullopt;
}

std::string silent_event(const ClientCall& call, std::size_t choice) {
  const bool chat = call.path == kChat;
  json silent = {{"index", choice}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
  silent[chat ? "delta" : "text"] = chat ? json::object() : json("");
  json chunk = {{"id", call.id},
                {"object", chat ? "chat.completion.chunk" : "text_completion"},
                {"created", call.created},
                {"model", call.model},
                {"choices", json::array({std::move(silent)})}};
  if (call.include_usage) chunk["usage"] = nullptr;
  return sse_event(chunk.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string relay_body(const ClientCall& call, std::string_view sent,
                       const std::optional<WeightsIdentity>& weights) {
  const std::string from =
      weights ? ",\"weights\":" + json{{"base", weights->base}, {"adapter", weights->adapter}}.dump(
                                      -1, ' ', true, json::error_handler_t::replace)
              : std::string();
  return fmt::format(R"({{"path":"{}","id":"{}","created":{},"seed":{}{}{}{},"request":{}}})",
                     call.path, call.id, call.created, call.seed,
                     sent.empty() ? "" : ",\"sent\":", sent, from, call.body);
}

}  // namespace tandem
