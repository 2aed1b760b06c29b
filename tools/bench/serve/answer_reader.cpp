#include "tools/bench/serve/answer_reader.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kDataField = "data:";
constexpr std::size_t kMaxReasonBytes = 200;
constexpr std::int64_t kMostTokens = 1'000'000'000;  // a larger count is a mistake

std::string in_a_line(std::string_view text) {
  std::string line(text.substr(0, kMaxReasonBytes));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return line;
}

// Returns the text of one choice. `has_token` is set if the event stands for a token. A
// completion's event always does, because a token may be part of a character and add no text. A
// chat begins with an event that has only a role.
std::string_view text_of_choice(const json& choice, Dialect dialect, bool& has_token) {
  const auto text_in = [&](const json& object, const char* name) -> std::string_view {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_string()) return {};
    return found->get_ref<const std::string&>();
  };
  if (dialect == Dialect::completions) {
    has_token = true;
    return text_in(choice, "text");
  }
  const auto delta = choice.find("delta");
  if (delta == choice.end() || !delta->is_object()) return {};
  for (const char* name : {"content", "reasoning_content", "reasoning"}) {
    if (const std::string_view text = text_in(*delta, name); !text.empty()) {
      has_token = true;
      return text;
    }
  }
  has_token = delta->contains("tool_calls");
  return {};
}

std::int64_t count_in(const json& usage, const char* name) {
  const auto found = usage.find(name);
  const bool is_count =
      found != usage.end() && found->is_number_integer() && *found >= 0 && *found <= kMostTokens;
  return is_count ? found->get<std::int64_t>() : -1;
}

}  // namespace

std::string error_text(std::string_view body) {
  const json parsed = json::parse(body, nullptr, false);
  if (parsed.is_object()) {
    const json& error = parsed.contains("error") ? parsed["error"] : parsed;
    if (error.is_string()) return in_a_line(error.get<std::string>());
    if (error.is_object() && error.contains("message") && error["message"].is_string()) {
      return in_a_line(error["message"].get<std::string>());
    }
  }
  return in_a_line(body);
}

void AnswerReader::fail(std::string reason) {
  if (answer_.mistake.empty()) answer_.mistake = std::move(reason);
}

void AnswerReader::take(std::string_view bytes, TimePoint now) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      if (partial_.size() + bytes.size() > kMaxLineBytes) {
        partial_.clear();
        return fail("a line of the stream is longer than 4 MiB");
      }
      partial_ += bytes;
      return;
    }
    if (partial_.empty()) {
      take_line(bytes.substr(0, end), now);
    } else {
      partial_ += bytes.substr(0, end);
      const std::string line = std::exchange(partial_, {});
      take_line(line, now);
    }
    bytes.remove_prefix(end + 1);
  }
}

void AnswerReader::take_line(std::string_view line, TimePoint now) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with(kDataField)) return;  // a comment, an event's name, or the end of an event
  line.remove_prefix(kDataField.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (line == "[DONE]") {
    answer_.finished = true;
  } else {
    take_event(line, now);
  }
}

void AnswerReader::take_event(std::string_view data, TimePoint now) {
  const json event = json::parse(data, nullptr, false);
  if (!event.is_object()) return fail(fmt::format("a broken event: {}", in_a_line(data)));
  if (event.contains("error") && !event["error"].is_null()) return fail(error_text(data));
  if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
    answer_.prompt_tokens = count_in(*usage, "prompt_tokens");
    answer_.output_tokens = count_in(*usage, "completion_tokens");
  }
  if (const auto tandem = event.find("tandem"); tandem != event.end() && tandem->is_object()) {
    if (const auto tier = tandem->find("adapter_tier");
        tier != tandem->end() && tier->is_string()) {
      answer_.adapter_tier = tier->get<std::string>();
    }
  }
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array() || choices->empty()) return;
  const json& choice = choices->front();
  if (!choice.is_object()) return fail(fmt::format("a broken event: {}", in_a_line(data)));
  if (const auto reason = choice.find("finish_reason");
      reason != choice.end() && reason->is_string()) {
    answer_.finished = true;
  }
  bool has_token = false;
  const std::string_view text = text_of_choice(choice, dialect_, has_token);
  if (!has_token) return;
  // A server may send chunks without text to keep the connection while it has no token yet.
  if (answer_.events == 0 && text.empty() && dialect_ == Dialect::completions &&
      !answer_.finished) {
    return;
  }
  if (answer_.events++ == 0) {
    answer_.first = now;
  } else {
    answer_.gaps_ms.push_back(static_cast<float>(seconds_between(answer_.last, now) * 1e3));
  }
  answer_.last = now;
  if (keep_text_) answer_.text += text;
}

}  // namespace tandem
