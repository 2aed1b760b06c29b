// Fetches an adapter that this engine lacks from an engine that has it, into the local store.
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
#include "base/file/file_progress.h"
#include "base/http/client/http_address.h"
#include "base/status.h"
#include "engine/peers/local_store.h"
#include "engine/peers/peer_call.h"

namespace tandem {

struct PeerFetcherOptions {
  std::string api_key;  // sent to peers; empty: none
  PeerTimes times;
  // The number of rounds in which busy peers are asked again, and the pause between them.
  int rounds = 5;
  Duration pause = std::chrono::seconds(1);
  // Called in fetch() if adapters in use leave no room in the store for a file that would otherwise
  // fit: returns whether some of them are no longer in use. Null counts as false.
  std::function<bool()> make_room = nullptr;
};

struct WantedAdapter {
  std::string digest;           // 32 hexadecimal digits
  std::uint64_t max_bytes = 0;  // limit for its weights' file
};

class PeerFetcher {
 public:
  // `store` must outlive it.
  PeerFetcher(LocalStore& store, PeerFetcherOptions options);

  // Loads the fetched adapter and thereby verifies its digest. invalid_argument, not_found or
  // permission_denied: it is not the wanted adapter. Other failures are not a peer's fault.
  using Use = std::function<Status(const LocalStore::Kept& kept)>;
  // Reads the adapter while it arrives, on a thread of its own: the config is complete, and
  // `writing` gives the progress of the weights' file, which ends when the peer is done.
  // invalid_argument, not_found or permission_denied mean, as for `use`, that it is not the wanted
  // adapter. Whatever it returns, `use` decides what is kept. Null: the adapter is not read early.
  using Arrive = std::function<Status(const std::filesystem::path& folder,
                                      std::shared_ptr<const FileProgress> writing)>;
  // Asks one peer after the other, in this order, until one has supplied an adapter that `use`
  // accepts. A failure lists each peer's reply and a remedy. One fetch at a time; stop() may be
  // called from any thread.
  Status fetch(const WantedAdapter& wanted, const std::vector<HttpAddress>& peers, const Use& use,
               const Arrive& arrive = nullptr);
  // Ends the running fetch and all later ones.
  void stop();

 private:
  PeerAnswer fetch_from(const HttpAddress& peer, const WantedAdapter& wanted, const Use& use,
                        const Arrive& arrive);
  Result<std::unique_ptr<IncomingAdapter>> take_room(std::uint64_t bytes);
  bool pause();  // false after stop()

  LocalStore& store_;
  const PeerFetcherOptions options_;
  PeerStop stop_;
  std::mutex mutex_;
  std::condition_variable stops_;
  bool stopped_ = false;  // guarded by mutex_
};

// Whether a failure to load an adapter means that the folder does not hold it, so that another
// source may.
bool blames_folder(const Status& status);

}  // namespace tandem
