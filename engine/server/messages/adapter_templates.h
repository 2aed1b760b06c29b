// The chat templates that adapters bring in their folders, read at the first chat with them.
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
  // Of the adapter that `service` has under `name`, with the special tokens of `base` where its
  // folder names none; null: it brings none, or the base's own. Reads the folder once for each time
  // that the adapter was loaded. Files that cannot be read are warned of in the log, once.
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
