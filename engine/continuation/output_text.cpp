#include "engine/continuation/output_text.h"

#include <algorithm>
#include <utility>

namespace tandem {

OutputText::OutputText(const Tokenizer& tokenizer, bool skip_special,
                       std::vector<std::string> stops, bool include_stop, std::vector<TokenId> kept)
    : decoder_(tokenizer, skip_special, std::move(kept)),
      stops_(std::move(stops)),
      include_stop_(include_stop) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string OutputText::push(TokenId token, bool stops_count) {
  if (stopped_by_) return {};
  held_ += decoder_.push(token);
  return release(stops_count);
}

std::string OutputText::flush() {
  if (stopped_by_) return {};
  held_ += decoder_.flush();
  return std::exchange(held_, {});
}

std::string OutputText::release(bool stops_count) {
  if (!stops_count) return std::exchange(held_, {});
  // The earliest match ends the text; of two at one place, the one listed first.
  std::size_t found = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at < found) {
      found = at;
      stopped_by_ = stop;
    }
  }
  if (stopped_by_) {
    held_.resize(found + (include_stop_ ? stopped_by_->size() : 0));
    return std::exchange(held_, {});
  }
  // Hold back the longest tail that is a beginning of some stop string.
  std::size_t hold = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, held_.size()); length > hold; --length) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) {
        hold = length;
      }
    }
  }
  // A stop string begins at a character's border when it matches, but its prefix may end inside
  // one: the shown part still ends at a border, because stop strings are valid UTF-8.
  std::string shown = held_.substr(0, held_.size() - hold);
  held_.erase(0, held_.size() - hold);
  return shown;
}

}  // namespace tandem
