// The chat templates in adapters' folders, read at the first chat with the adapter.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "engine/server/messages/text_codec.h"
#include "engine/service/service.h"

namespace tandem {

// Thread-safe.
class AdapterTemplates {
 public:
  // Returns the templates of the adapter `name` of `service`; special tokens that its folder does
  // not name are those of `base`. Null: it has none of its own, or the base's. The folder is read
  // once for each loading of the adapter. An unreadable file is logged as a warning, once.
  std::shared_ptr<const ChatTemplates> find(const GenerationService& service, const TextCodec& base,
                                            const std::string& name);

 private:
  struct Entry {
    std::weak_ptr<const void> loaded;  // AdapterFolder::loaded
    std::shared_ptr<const ChatTemplates> templates;
  };

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // guarded by mutex_
};

}  // namespace tandem
