// Adapters of a cluster's registry, served by name although nobody gave them to this server: each
// is read when a request names it first, proven by its digest, and follows its newest version.
//
//   fetch, follow -> [folders_: the local store, then the folder of the entry]
//                        | neither holds it, and there is a local store
//                        v
//                    [peers_: other engines -> the local store]
//                             served while it comes (AdapterArrival)
//
// Two threads, so that an adapter on a slow way here holds up none that lies at hand.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/http/worker_lane.h"
#include "base/status.h"
#include "engine/adapters/adapter_arrival.h"
#include "engine/batching/engine.h"
#include "engine/peers/fetch_back_off.h"
#include "engine/peers/local_store.h"
#include "engine/peers/peer_fetcher.h"
#include "scheduler/cluster/registry/registry.h"
#include "scheduler/cluster/registry/registry_member.h"

namespace tandem {

struct RegistryAdaptersOptions {
  DType dtype = DType::bf16;          // that the engine computes in
  std::vector<std::string> roots;     // folders of the registry must lie under one of them
  std::unique_ptr<LocalStore> store;  // null: other engines are not asked
  PeerFetcherOptions peers;
};

class RegistryAdapters {
 public:
  // Registers the engine, now or when the registry answers; the engine outlives this.
  static Result<std::unique_ptr<RegistryAdapters>> join(const std::string& url,
                                                        const EngineEntry& entry, Engine& engine,
                                                        RegistryAdaptersOptions options);
  // Leaves the registry. Adapters stay served. Nobody may be in fetch().
  ~RegistryAdapters();
  RegistryAdapters(const RegistryAdapters&) = delete;
  RegistryAdapters& operator=(const RegistryAdapters&) = delete;

  // Makes the newest version of this name servable. not_found: the registry does not have it.
  // unavailable: it is still on its way, or cannot be had now. Takes as long as reading it takes,
  // half a minute at most. Only a few callers wait for other engines; the others get `unavailable`
  // at once. Thread-safe.
  Status fetch(const std::string& name);

  // Those that fetch() can be asked for here, the newest version of each; by name. Thread-safe.
  std::vector<AdapterEntry> listed() const;
  // The one that fetch() would bring in for this name. Thread-safe.
  std::optional<AdapterEntry> find(const std::string& name) const;

  // To be called now and then, by one thread: asks again for versions that could not be had, as
  // other engines may have them by now. Where there is no memory for that, the next time.
  void look_again() noexcept;

  // Present and later calls of fetch() return an error that says that this server ends; transfers
  // from other engines are broken off. For the end of the server: nothing undoes it. Thread-safe.
  void end_fetches();

  // Of the engine's place in the registry: RegistryMember's. Thread-safe.
  void set_serving(bool serving) { member_->set_serving(serving); }

 private:
  // A name that is being brought in, for all who want it.
  struct Job {
    std::string name;
    AdapterEntry entry;     // that is tried; of the lanes
    bool at_peers = false;  // guarded by mutex_, like the rest
    bool is_shown = false;  // it is served while it comes
    bool is_done = false;
    Status status;
  };
  using JobPtr = std::shared_ptr<Job>;

  RegistryAdapters(Engine& engine, RegistryAdaptersOptions options);
  struct Fetched {
    std::string digest;
    bool in_store = false;
    std::uint64_t uses = 0;  // when it was looked last
    std::chrono::steady_clock::time_point last_use = std::chrono::steady_clock::now();
  };

  void follow();  // what was fetched, to its newest version
  void follow(const std::string& name);
  JobPtr ask(const std::string& name);                             // mutex_ held
  void bring_in(const JobPtr& job);                                // on folders_
  void bring_from_peers(const JobPtr& job, const Status& before);  // on peers_
  void end(const JobPtr& job, const Status& status) noexcept;
  void tell_refusal(const Job& job, const Status& status);

  // Of those that keep files in the store, the one used longest ago and by nobody now. False: none.
  bool unload_idle();
  bool note_use(const std::string& name, Fetched& fetched) const;  // is it used now? mutex_ held
  bool is_served(const AdapterEntry& entry);
  Status check_fits(const AdapterEntry& entry) const;
  bool can_bring(const AdapterEntry& entry) const;
  Status load_from_store(const AdapterEntry& entry);  // not_found: it is not there
  // `arrival`: null, or what has read it already while it came.
  Status load(const AdapterEntry& entry, const std::filesystem::path& folder,
              AdapterArrival* arrival = nullptr);
  // `has_come`: a peer has given all of it, good or bad.
  Status fetch_from_peers(const AdapterEntry& entry, AdapterArrival* arrival, bool& has_come);
  // Null: it is to be on the device before its name is served.
  std::unique_ptr<AdapterArrival> expect(const JobPtr& job);
  Status held_off(const std::string& digest);  // why it is not fetched again yet
  Result<std::filesystem::path> allowed_folder(const AdapterEntry& entry) const;

  Engine& engine_;
  const DType dtype_;
  std::vector<std::filesystem::path> roots_;  // links resolved
  const std::unique_ptr<LocalStore> store_;   // null: none
  std::unique_ptr<PeerFetcher> fetcher_;      // null: none

  std::mutex mutex_;  // guards these
  std::condition_variable changed_;
  std::map<std::string, JobPtr> jobs_;          // under way
  std::map<std::string, Fetched> fetched_;      // by name
  std::map<std::string, std::string> refused_;  // digests by name, which the log has
  FetchBackOff back_off_;
  int waiting_for_peers_ = 0;
  bool ending_ = false;

  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();

  WorkerLane folders_;
  WorkerLane peers_;
  // Its thread and the lanes use each other: those of the threads end first, its own before.
  std::unique_ptr<RegistryMember> member_;
};

}  // namespace tandem
