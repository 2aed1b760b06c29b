#include "engine/server/messages/response_building.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/check.h"
#include "base/json/json_release.h"
#include "base/text/utf8.h"

namespace tandem {
namespace {

using nlohmann::json;

std::size_t count_characters(std::string_view bytes) {
  return static_cast<std::size_t>(
      std::count_if(bytes.begin(), bytes.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

HttpResponse json_response(const json& value, int status) {
  HttpResponse response;
  response.status = status;
  response.body = dump(value);
  return response;
}

HttpResponse text_response(std::string text) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(text);
  return response;
}

std::string random_id(std::string_view prefix) {
  // One generator per thread, with its own seed, so that ids need no lock.
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return fmt::format("{}{:016x}{:08x}", prefix, generator(), generator() >> 32);
}

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

json finish_reason_json(FinishReason reason) {
  switch (reason) {
    case FinishReason::none:
      return nullptr;
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
    case FinishReason::failed:
      break;
  }
  TANDEM_CHECK(false, "an answer that failed has no finish reason to tell");
}

json usage_json(std::span<const GenerationStats> stats) {
  std::int64_t prompt = 0;
  std::int64_t completion = 0;
  std::int64_t cached = 0;
  for (const GenerationStats& each : stats) {
    prompt += each.prompt_tokens;
    completion += each.completion_tokens;
    cached += each.cached_tokens;
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

json tandem_json(std::span<const GenerationStats> stats) {
  TANDEM_CHECK(!stats.empty());
  double ttft_s = stats.front().ttft_s;
  double queue_s = 0;
  std::int32_t cpu_layers = 0;
  for (const GenerationStats& each : stats) {
    ttft_s = std::min(ttft_s, each.ttft_s);
    queue_s = std::max(queue_s, each.queue_s);
    cpu_layers = std::max(cpu_layers, each.cpu_layers);
  }
  const std::string& tier = stats.front().adapter_tier;
  return {{"ttft_s", ttft_s},
          {"queue_s", queue_s},
          {"adapter_tier", tier.empty() ? json() : json(tier)},
          {"cpu_layers", cpu_layers}};
}

// Special tokens add no bytes to the text; their name is used instead.
std::string TokenTexts::bytes_of(TokenId id) const {
  if (is_special(id)) return text_->id_to_token(id);
  return begins_text_ ? text_->first_token_bytes(id) : text_->token_bytes(id);
}

json ChatLogprobs::entry(TokenId id, float logprob) const {
  const std::string bytes = texts_.bytes_of(id);
  json list = json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return {{"token", bytes}, {"logprob", logprob}, {"bytes", std::move(list)}};
}

json ChatLogprobs::format(std::span<const TokenLogprob> tokens) {
  json content = json::array();
  for (const TokenLogprob& token : tokens) {
    json told = entry(token.token, token.logprob);
    told["top_logprobs"] = json::array();
    for (const auto& [id, logprob] : token.top) told["top_logprobs"].push_back(entry(id, logprob));
    content.push_back(std::move(told));
    texts_.pass(token.token);
  }
  return {{"content", std::move(content)}};
}

// A token that is not whole characters is written as bytes, as in OpenAI's API: "bytes:\xe2\x82".
std::string CompletionLogprobs::token_text(TokenId id, std::size_t& characters) const {
  std::string bytes = texts_.bytes_of(id);
  characters = count_characters(bytes);
  if (utf8::valid(bytes)) return bytes;
  std::string told = "bytes:";
  for (const char c : bytes) told += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return told;
}

json CompletionLogprobs::format(std::span<const TokenLogprob> prompt,
                                std::span<const TokenLogprob> tokens, const TokenId* first_without,
                                std::string_view shown) {
  json texts = json::array();
  json logprobs = json::array();
  json tops = json::array();
  json offsets = json::array();
  // Frees them without recursion if memory runs out below; otherwise they are moved away.
  const EmptiedFromLeaves texts_at_end(texts);
  const EmptiedFromLeaves logprobs_at_end(logprobs);
  const EmptiedFromLeaves tops_at_end(tops);
  const EmptiedFromLeaves offsets_at_end(offsets);
  const auto add = [&](TokenId id, json logprob, json top) {
    std::size_t characters = 0;
    texts.push_back(token_text(id, characters));
    logprobs.push_back(std::move(logprob));
    tops.push_back(std::move(top));
    offsets.push_back(offset_);
    offset_ += characters;
    texts_.pass(id);
  };
  if (first_without != nullptr) {
    const bool is_shown = shown.starts_with(texts_.bytes_of(*first_without));
    add(*first_without, nullptr, nullptr);
    if (is_shown) {
      texts_.begin();
    } else {
      offset_ = 0;
    }
  }
  for (const std::span<const TokenLogprob> part : {prompt, tokens}) {
    for (const TokenLogprob& token : part) {
      json top = json::object();
      std::size_t ignored = 0;
      // If two tokens have the same text, the likelier one, which comes first, is used.
      for (const auto& [id, logprob] : token.top) top.emplace(token_text(id, ignored), logprob);
      top.emplace(token_text(token.token, ignored), token.logprob);
      add(token.token, token.logprob, std::move(top));
    }
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace tandem
