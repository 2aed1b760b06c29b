#include "scheduler/cluster/router/stream_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/parse_number.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kTokens = ":tokens ";
constexpr std::string_view kWeights = ":weights ";
constexpr std::string_view kUnknown = "-";
constexpr std::size_t kMaxWeightsBytes = 128;
constexpr std::string_view kMoved = ":moved";
constexpr std::string_view kDataField = "data:";
constexpr std::string_view kDone = "[DONE]";

// Whether `"name":` is followed by `first`. Quotes within a text are escaped, so no text of the
// answer looks like a member.
bool has_member(std::string_view data, std::string_view quoted_name, char first) {
  for (std::size_t at = 0; (at = data.find(quoted_name, at)) != std::string_view::npos;) {
    at = data.find_first_not_of(": ", at + quoted_name.size());
    if (at == std::string_view::npos) return false;
    if (data[at] == first) return true;
  }
  return false;
}

// Whether an error is the engine's fault by its type.
bool is_engines_fault(std::string_view data) {
  const json event = json::parse(data, nullptr, false);
  if (!event.is_object()) return false;
  const auto error = event.find("error");
  if (error == event.end() || !error->is_object()) return false;
  const auto type = error->find("type");
  if (type == error->end() || !type->is_string()) return false;
  return *type == "server_error" || *type == "service_unavailable_error";
}

}  // namespace

StreamLedger::StreamLedger(std::size_t choices, bool include_usage)
    : choices_(std::clamp<std::size_t>(choices, 1, kMaxChoices)), include_usage_(include_usage) {}

StreamLedger::News StreamLedger::take(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t length = end == std::string_view::npos ? bytes.size() : end + 1;
    if (line_.size() + event_.size() + length > kMaxEventBytes) return News::hostile;
    if (end == std::string_view::npos) {
      line_ += bytes;
      return News::more;
    }
    std::string_view line = bytes.substr(0, length);
    std::string joined;
    if (!line_.empty()) {
      joined = std::move(line_);
      line_.clear();
      joined += line;
      line = joined;
    }
    bytes.remove_prefix(length);
    if (const News news = take_line(line, out); news != News::more) return news;
  }
  return News::more;
}

// `line` includes its line break.
StreamLedger::News StreamLedger::take_line(std::string_view line, std::string& out) {
  if (line.front() == ':') return take_comment(line);
  const bool empty = line == "\n" || line == "\r\n";
  // The empty line after an event of comments alone is dropped with them.
  if (empty && event_.empty() && commented_) {
    commented_ = false;
    return News::more;
  }
  event_ += line;
  return empty ? end_event(out) : News::more;
}

StreamLedger::News StreamLedger::take_comment(std::string_view line) {
  commented_ = true;
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (line == kMoved) return News::moved;
  if (line.starts_with(kTokens)) return take_tokens(line.substr(kTokens.size()));
  if (line.starts_with(kWeights)) return take_weights(line.substr(kWeights.size()));
  return News::more;
}

StreamLedger::News StreamLedger::take_tokens(std::string_view numbers) {
  std::size_t choice = choices_.size();
  bool first = true;
  while (!numbers.empty()) {
    const std::int32_t number = take_number<std::int32_t>(numbers).value_or(-1);
    if (number < 0) return News::hostile;
    if (!numbers.empty() && numbers.front() != ' ') return News::hostile;
    while (!numbers.empty() && numbers.front() == ' ') numbers.remove_prefix(1);
    if (first) {
      choice = static_cast<std::size_t>(number);
      if (choice >= choices_.size()) return News::hostile;
      first = false;
    } else {
      pending_.push_back({choice, number});
    }
  }
  const bool fits = num_tokens_ + pending_.size() <= kMaxTokens;
  return first || !fits ? News::hostile : News::more;
}

// Reads "BASE DIGEST". An engine that continues with other weights has ignored the request.
StreamLedger::News StreamLedger::take_weights(std::string_view words) {
  const std::size_t space = words.find(' ');
  if (space == std::string_view::npos) return News::hostile;
  const auto read = [](std::string_view word) {
    return std::string(word == kUnknown ? std::string_view() : word);
  };
  const std::string_view base = words.substr(0, space);
  const std::string_view adapter = words.substr(space + 1);
  if (base.size() > kMaxWeightsBytes || adapter.size() > kMaxWeightsBytes) return News::hostile;
  WeightsIdentity told{read(base), read(adapter)};
  if (weights_ && !(is_same_base(weights_->base, told.base) && weights_->adapter == told.adapter)) {
    return News::hostile;
  }
  pending_weights_ = std::move(told);
  return News::more;
}

StreamLedger::News StreamLedger::end_event(std::string& out) {
  commented_ = false;
  std::string_view data = event_;
  if (!data.starts_with(kDataField)) {  // not an engine's event: left to the client
    out += event_;
    event_.clear();
    return News::more;
  }
  data.remove_prefix(kDataField.size());
  while (!data.empty() && data.front() == ' ') data.remove_prefix(1);
  while (!data.empty() && (data.back() == '\n' || data.back() == '\r')) data.remove_suffix(1);
  const News news = judge(data);
  if (news == News::failed) {
    error_event_ = std::move(event_);
    event_.clear();
    return news;
  }
  if (news == News::hostile || !take_pending(data)) return News::hostile;
  began_ = true;
  if (pending_weights_ && !weights_) weights_ = std::move(pending_weights_);
  out += event_;
  event_.clear();
  return news;
}

StreamLedger::News StreamLedger::judge(std::string_view data) {
  if (data == kDone) {
    done_ = true;
    return News::done;
  }
  if (data.starts_with("{\"error\"") && is_engines_fault(data)) return News::failed;
  const bool ends_choice = has_member(data, "\"finish_reason\"", '"');
  if (ends_choice && !note_choices(data)) return News::hostile;
  // The final usage event has no choice: with continuous_usage_stats every chunk has usage.
  if (include_usage_ && finished_ == choices_.size() && !ends_choice &&
      has_member(data, "\"usage\"", '{')) {
    usage_told_ = true;
  }
  return News::more;
}

// Tokens from comments count as received once data of their choice are passed on. With a single
// choice the event need not be parsed.
bool StreamLedger::take_pending(std::string_view data) {
  if (choices_.size() == 1) {
    Choice& choice = choices_[0];
    choice.events = pending_.empty() ? choice.events + 1 : 1;
    for (const Pending& one : pending_) choice.tokens.push_back(one.token);
    num_tokens_ += pending_.size();
    pending_.clear();
    return true;
  }
  const json event = json::parse(data, nullptr, false);
  if (!event.is_object()) return true;
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array()) return true;
  std::vector<std::size_t> told;
  for (const json& choice : *choices) {
    if (!choice.is_object()) return false;
    const auto index = choice.find("index");
    if (index == choice.end() || !index->is_number_unsigned()) continue;
    const auto place = index->get<std::size_t>();
    if (place >= choices_.size()) return false;
    told.push_back(place);
    ++choices_[place].events;
  }
  std::erase_if(pending_, [&](const Pending& one) {
    if (std::find(told.begin(), told.end(), one.choice) == told.end()) return false;
    choices_[one.choice].tokens.push_back(one.token);
    choices_[one.choice].events = 1;
    ++num_tokens_;
    return true;
  });
  return true;
}

bool StreamLedger::note_choices(std::string_view data) {
  const json event = json::parse(data, nullptr, false);
  if (!event.is_object()) return false;
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array()) return true;
  for (const json& choice : *choices) {
    if (!choice.is_object()) return false;
    const auto index = choice.find("index");
    const auto finish = choice.find("finish_reason");
    if (index == choice.end() || !index->is_number_unsigned() || finish == choice.end()) continue;
    if (!finish->is_string()) continue;
    const auto place = index->get<std::uint64_t>();
    if (place >= choices_.size()) return false;
    if (choices_[place].finish.empty()) ++finished_;
    choices_[place].finish = finish->get<std::string>();
  }
  return true;
}

void StreamLedger::cut() {
  line_.clear();
  event_.clear();
  pending_.clear();
  pending_weights_.reset();
  commented_ = false;
}

std::size_t StreamLedger::first_open() const {
  const auto open = std::find_if(choices_.begin(), choices_.end(),
                                 [](const Choice& choice) { return choice.finish.empty(); });
  return open == choices_.end() ? 0 : static_cast<std::size_t>(open - choices_.begin());
}

bool StreamLedger::complete() const {
  if (done_) return true;
  return finished_ == choices_.size() && (!include_usage_ || usage_told_);
}

std::string StreamLedger::sent() const {
  std::string list = "[";
  const auto out = std::back_inserter(list);
  for (const Choice& choice : choices_) {
    if (list.size() > 1) list += ',';
    list += "{\"tokens\":[";
    for (const std::int32_t token : choice.tokens) fmt::format_to(out, "{},", token);
    if (!choice.tokens.empty()) list.pop_back();
    list += "],\"finish\":";
    list += choice.finish.empty()
                ? "null"
                : json(choice.finish).dump(-1, ' ', true, json::error_handler_t::replace);
    // A token of a tool call may take several events.
    if (!choice.tokens.empty()) fmt::format_to(out, ",\"events\":{}", choice.events);
    list += '}';
  }
  return list + ']';
}

}  // namespace tandem
