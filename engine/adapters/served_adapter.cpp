#include "engine/adapters/served_adapter.h"

#include <chrono>
#include <utility>

namespace tandem {
namespace {

std::int64_t unix_now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

// The home takes the bytes and the source from `contents`; the rest is kept.
ServedAdapter::ServedAdapter(std::string name, Adapter contents, Adapter part, bool pinned,
                             bool reloadable, std::shared_ptr<HostTier> host,
                             std::shared_ptr<const Tokenizer> tokenizer,
                             std::vector<ScaledAdapter> set)
    : name_(std::move(name)),
      pinned_(pinned),
      loaded_unix_(unix_now_s()),
      home_(std::exchange(contents.bytes, nullptr),
            {contents.path, std::exchange(contents.source, nullptr)}, reloadable && !pinned,
            std::move(host)),
      contents_(std::move(contents)),
      part_(std::move(part)),
      tokenizer_(std::move(tokenizer)),
      set_(std::move(set)) {}

}  // namespace tandem
