#include "engine/continuation/output_text.h"

#include <algorithm>
#include <utility>

namespace tandem {

OutputText::OutputText(const Tokenizer& tokenizer, bool skip_special,
                       std::vector<std::string> stops, bool include_stop, std::vector<TokenId> kept,
                       std::span<const TokenId> prompt)
    : tokenizer_(&tokenizer),
      decoder_(tokenizer, skip_special, std::move(kept), prompt),
      stops_(std::move(stops)),
      include_stop_(include_stop) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string OutputText::push(TokenId token, bool stops_count) {
  if (stopped_by_) return {};
  held_ += decoder_.push(token);
  if (const std::string_view name = hidden_name(token); !name.empty()) {
    hidden_.push_back({held_.size(), held_.size() + name.size()});
    held_ += name;
  }
  return release(stops_count);
}

std::string OutputText::flush() {
  if (stopped_by_) return {};
  held_ += decoder_.flush();
  return take(held_.size(), held_.size());
}

std::string_view OutputText::hidden_name(TokenId token) const {
  if (stops_.empty() || !decoder_.skips(token)) return {};
  const std::string_view name = tokenizer_->id_to_token(token);
  const bool is_looked_for = std::ranges::any_of(
      stops_, [&](const std::string& stop) { return stop.find(name) != std::string::npos; });
  return is_looked_for ? name : std::string_view();
}

std::string OutputText::release(bool stops_count) {
  if (!stops_count) return take(held_.size(), held_.size());
  // The earliest match ends the text; of two at the same position, the one listed first.
  std::size_t found = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at < found) {
      found = at;
      stopped_by_ = stop;
    }
  }
  if (stopped_by_) return take(found + (include_stop_ ? stopped_by_->size() : 0), found);
  // The longest suffix that is a prefix of a stop string is held back.
  std::size_t hold = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, held_.size()); length > hold; --length) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) {
        hold = length;
      }
    }
  }
  // A complete stop string begins at a character boundary, but a prefix of it may end inside a
  // character. The shown part still ends at a boundary, because stop strings are valid UTF-8.
  const std::size_t count = held_.size() - hold;
  return take(count, count);
}

std::string OutputText::take(std::size_t count, std::size_t shown_from) {
  std::string text;
  std::size_t from = 0;
  for (Hidden& hidden : hidden_) {
    if (hidden.begin < shown_from) {
      text.append(held_, from, hidden.begin - from);
      from = std::min(hidden.end, shown_from);
    }
    hidden.begin -= std::min(hidden.begin, count);
    hidden.end -= std::min(hidden.end, count);
  }
  text.append(held_, from, count - from);
  held_.erase(0, count);
  std::erase_if(hidden_, [](const Hidden& hidden) { return hidden.end == 0; });
  return text;
}

}  // namespace tandem
