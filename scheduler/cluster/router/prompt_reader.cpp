#include "scheduler/cluster/router/prompt_reader.h"

#include <nlohmann/json.hpp>
#include <string>

namespace tandem {
namespace {

using nlohmann::json;

void hash_json(PromptHasher& hasher, const json& value) {
  if (value.is_string()) {
    hasher.add(value.get_ref<const std::string&>());
  } else {
    hasher.add(value.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  hasher.add("\n");
}

void hash_each(PromptHasher& hasher, const json& list) {
  for (const json& one : list) {
    if (hasher.is_full()) return;
    hash_json(hasher, one);
  }
}

void hash_message(PromptHasher& hasher, const json& message) {
  if (!message.is_object()) return hash_json(hasher, message);
  // Templates write the role before the content.
  for (const char* first : {"role", "content"}) {
    const auto found = message.find(first);
    if (found != message.end()) hash_json(hasher, *found);
  }
  for (const auto& [name, value] : message.items()) {
    if (name != "role" && name != "content") hash_json(hasher, value);
  }
}

void hash_chat(PromptHasher& hasher, const json& body) {
  for (const char* before : {"chat_template", "chat_template_kwargs", "documents", "tools"}) {
    const auto found = body.find(before);
    if (found != body.end() && !found->is_null()) hash_json(hasher, *found);
  }
  const auto messages = body.find("messages");
  if (messages == body.end() || !messages->is_array()) return;
  for (const json& message : *messages) {
    if (hasher.is_full()) return;
    hash_message(hasher, message);
  }
}

void hash_prompt(PromptHasher& hasher, const json& body) {
  const auto prompt = body.find("prompt");
  if (prompt == body.end()) return;
  if (!prompt->is_array()) return hash_json(hasher, *prompt);
  if (prompt->empty()) return;
  const json& first = prompt->front();
  if (first.is_number()) return hash_each(hasher, *prompt);
  if (first.is_array()) return hash_each(hasher, first);
  hash_json(hasher, first);
}

}  // namespace

std::vector<PromptBlock> read_prompt_blocks(const json& body, bool chat, std::string_view model,
                                            std::uint64_t key) {
  PromptHasher hasher(key, model);
  if (chat) {
    hash_chat(hasher, body);
  } else {
    hash_prompt(hasher, body);
  }
  return hasher.take();
}

}  // namespace tandem
