// An adapter that this engine lacks, from an engine that has it, into the local store.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_progress.h"
#include "base/http/client/http_address.h"
#include "base/status.h"
#include "engine/peers/local_store.h"
#include "engine/peers/peer_call.h"

namespace tandem {

struct PeerFetcherOptions {
  std::string api_key;  // shown to peers; empty: none
  PeerTimes times;
  // Those that are busy are asked again so often, and after so long.
  int rounds = 5;
  Duration pause = std::chrono::seconds(1);
  // Called, in fetch(), when what is in use leaves a file no room in the store that could hold it:
  // whether some of it is in use no more. Null: no.
  std::function<bool()> make_room = nullptr;
};

struct WantedAdapter {
  std::string digest;           // 32 hexadecimal digits
  std::uint64_t max_bytes = 0;  // of its weights' file
};

class PeerFetcher {
 public:
  // `store` outlives it.
  PeerFetcher(LocalStore& store, PeerFetcherOptions options);

  // Uses what has come, and with that proves that it has the digest. invalid_argument, not_found or
  // permission_denied: it is not the adapter. Other failures are no peer's fault.
  using Use = std::function<Status(const LocalStore::Kept& kept)>;
  // Uses it while it comes, on a thread of its own: the config is there, and of the weights' file
  // what `writing` tells, which ends when the peer is done. invalid_argument, not_found or
  // permission_denied, as of `use`: it is not the adapter. Whatever it says, `use` has the last
  // word on what is kept. Null: nobody does.
  using Arrive = std::function<Status(const std::filesystem::path& folder,
                                      std::shared_ptr<const FileProgress> writing)>;
  // Asks one peer after the other, in this order, until one has given what `use` takes. A failure
  // says of each peer what it did, and what may help. One fetch at a time; stop() from any thread.
  Status fetch(const WantedAdapter& wanted, const std::vector<HttpAddress>& peers, const Use& use,
               const Arrive& arrive = nullptr);
  // Ends the fetch under way, and all later ones.
  void stop();

 private:
  PeerAnswer fetch_from(const HttpAddress& peer, const WantedAdapter& wanted, const Use& use,
                        const Arrive& arrive);
  Result<std::unique_ptr<IncomingAdapter>> take_room(std::uint64_t bytes);
  bool pause();  // false: stop()

  LocalStore& store_;
  const PeerFetcherOptions options_;
  PeerStop stop_;
  std::mutex mutex_;
  std::condition_variable stops_;
  bool stopped_ = false;  // guarded by mutex_
};

// Whether a failure to load an adapter says that its folder does not hold it: elsewhere it may be.
bool blames_folder(const Status& status);

}  // namespace tandem
