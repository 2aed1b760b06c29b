#include "engine/model/families/checkpoint_config.h"

#include <algorithm>

namespace tandem {

std::vector<std::int32_t> CheckpointConfig::token_ids(std::string_view name,
                                                      std::int64_t vocab_size) {
  constexpr std::size_t kMaxIds = 1024;
  std::vector<std::int32_t> ids;
  const Json* const field = find(name);
  if (field == nullptr) return ids;
  if (field->is_array() && field->size() > kMaxIds) {
    fail(invalid("'{}' has too many entries", name));
    return ids;
  }
  const auto add = [&](const Json& id) {
    const auto token =
        static_cast<std::int32_t>(take(JsonFields<Json>::as_integer(name, id, 0, vocab_size - 1)));
    if (std::ranges::find(ids, token) == ids.end()) ids.push_back(token);
  };
  if (field->is_array()) {
    for (const Json& id : *field) add(id);
  } else {
    add(*field);
  }
  return ids;
}

}  // namespace tandem
