#include "engine/server/messages/adapter_templates.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/log/log.h"

namespace tandem {
namespace {

bool is_same(const std::weak_ptr<const void>& a, const std::weak_ptr<const void>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

std::shared_ptr<const ChatTemplates> read_templates(const AdapterFolder& folder,
                                                    const TextCodec& base,
                                                    const std::string& name) {
  const ChatTemplates* const of_base = base.chat_templates();
  auto loaded =
      ChatTemplates::load(folder.read, of_base == nullptr ? nlohmann::ordered_json::object()
                                                          : of_base->special_tokens());
  if (!loaded) {
    if (loaded.status().code() != StatusCode::not_found) {
      log::warning("adapter '{}': its chat template cannot be read and is not used: {}", name,
                   loaded.status().message());
    }
    return nullptr;
  }
  if (of_base != nullptr && (*loaded)->same_as(*of_base)) return nullptr;
  if (const Status problem = (*loaded)->problem(); !problem) {
    log::warning(
        "adapter '{}' has a chat template that cannot be used; chats with it are refused (400): {}",
        name, problem.message());
  } else {
    log::info("adapter '{}' has a chat template of its own, which renders its chats", name);
  }
  return std::shared_ptr<const ChatTemplates>(*std::move(loaded));
}

}  // namespace

std::shared_ptr<const ChatTemplates> AdapterTemplates::find(const GenerationService& service,
                                                            const TextCodec& base,
                                                            const std::string& name) {
  if (name.empty()) return nullptr;
  const AdapterFolder folder = service.adapter_folder(name);
  if (!folder.read) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto known = entries_.find(name);
    if (known != entries_.end() && is_same(known->second.loaded, folder.loaded))
      return known->second.templates;
  }
  // Two concurrent calls may both read the templates; the result is the same.
  Entry entry{folder.loaded, read_templates(folder, base, name)};
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const auto& known) { return known.second.loaded.expired(); });
  entries_[name] = entry;
  return entry.templates;
}

}  // namespace tandem
