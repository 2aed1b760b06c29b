// The engine as the server sees it. One engine implements it in this process; the cluster router
// will implement it over many.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/file_identity.h"
#include "base/status.h"
#include "engine/service/cold_start.h"
#include "engine/service/counted_values.h"
#include "engine/service/cpu_worker.h"
#include "engine/service/generation.h"
#include "engine/service/learned_costs.h"
#include "scheduler/policies/engine_view.h"

namespace tandem {

struct AdapterInfo {
  std::string name;
  std::string path;
  std::string digest;
  std::int32_t rank = 0;             // the largest of its modules
  std::vector<std::string> modules;  // "q_proj", ...
  std::uint64_t bytes = 0;
  std::string tier;  // "disk", "host", "loading", "device"
  bool pinned = false;
  std::int64_t loaded_unix = 0;  // seconds since the epoch
  std::int32_t running = 0;      // requests
  std::int32_t waiting = 0;
  std::uint64_t hits = 0;         // requests that found it on the device
  std::uint64_t cold_starts = 0;  // requests that did not
};

// An adapter as a router sees it. The strings are the engine's own: telling them copies nothing.
struct AdapterPresence {
  std::shared_ptr<const std::string> name;
  std::shared_ptr<const std::string> digest;
  std::int32_t rank = 0;
  std::uint64_t bytes = 0;
  AdapterTier tier = AdapterTier::absent;  // absent: in its folder alone
  std::int32_t active = 0;                 // requests that run or wait
  bool pinned = false;
};

// A file that an adapter was read from, opened for who passes it on.
struct AdapterFile {
  File file;
  FileIdentity identity;  // whoever reads another one at the end has read something else
};

// What lies beside an adapter's weights in its folder.
struct AdapterFolder {
  // Stands for one loading of the adapter: another after it was loaded again.
  std::weak_ptr<const void> loaded;
  // The text of one of the folder's files, of at most 64 MiB, by the rules that hold for the
  // weights; not_found where there is none. Thread-safe. Empty: the adapter has no folder.
  std::function<Result<std::string>(const std::string& file)> read;
};

struct EngineStats {
  std::int32_t running = 0;  // sequences
  std::int32_t waiting = 0;
  std::int32_t page_tokens = 0;  // of a page
  std::int64_t pages_total = 0;
  std::int64_t pages_kv = 0;       // of sequences
  std::int64_t pages_cached = 0;   // of the prefix cache alone: reclaimed when need be
  std::int64_t pages_adapter = 0;  // of adapters
  std::int64_t pages_free = 0;
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0;  // computed
  std::uint64_t generation_tokens = 0;
  std::uint64_t preemptions = 0;
  // Sequences given up before they began, since their first token was due already, or would have
  // been by the end of a prefill begun at once.
  std::uint64_t aborts_expired = 0;
  std::uint64_t aborts_unreachable = 0;
  std::int32_t tenants = 0;          // with sequences that wait or run; 0 where fairness is off
  bool overloaded = false;           // more come than are admitted
  double longest_prefill_s = 0;      // of late, from a request's first step to its first token
  std::uint64_t prefix_queries = 0;  // prompt tokens looked for in the prefix cache
  std::uint64_t prefix_hits = 0;     // and found there
  double step_seconds_total = 0;     // the device at work
  double host_seconds_total = 0;     // the engine thread at work, mostly while the device is, too
  double gap_seconds_total = 0;      // the device at rest because the engine thread was at work
  // Steps by when they were planned. Just in time: as late as could be, so that who arrived while
  // the one before ran was in them.
  std::uint64_t steps_at_once = 0;
  std::uint64_t steps_in_time = 0;
  std::uint64_t steps_late = 0;  // it was a little too late, and the device rested
  double enqueue_margin_s = 0;   // how long before the expected end of a step; 0: not known
  CountedValues<kInterTokenBounds.size()> inter_token;  // seconds between tokens of a sequence
  CountedValues<kStepTokensBounds.size()> step_tokens;  // computed by a step
  std::uint64_t adapter_loads = 0;                      // to the device, arrived
  std::uint64_t adapter_loaded_bytes = 0;
  CountedValues<kAdapterLoadBounds.size()> adapter_load;  // seconds of each, from its order
  std::uint64_t adapter_evictions = 0;
  std::uint64_t adapter_early_arrivals = 0;  // used before the last byte came from another engine
  // The handoff of cold adapters' rows to CPU workers.
  std::int32_t cpu_workers = 0;  // that are up
  std::uint64_t worker_restarts = 0;
  double worker_busy_s = 0;              // over all of them
  std::uint64_t handoff_steps = 0;       // with rows of adapters that were still loading
  std::uint64_t handoff_rows = 0;        // of these adapters
  std::uint64_t handoff_cpu_layers = 0;  // of them: computed by workers
  std::uint64_t handoff_gpu_layers = 0;  // offered to workers, but the weights had come
  std::uint64_t handoff_timed_out = 0;   // groups of rows that workers left without an answer
  std::uint64_t replays = 0;             // sequences that were computed again for that
  double handoff_planned_seconds = 0;    // what the steps were to take
  double handoff_actual_seconds = 0;
  // Of the last steps with a plan, be it to wait, the median: 0.1 is 10 % of what was planned.
  double handoff_plan_error = 0;
  std::uint64_t host_tier_bytes = 0;
  std::uint64_t host_tier_used = 0;
};

// Thread-safe.
class GenerationService {
 public:
  virtual ~GenerationService() = default;

  // Checks the request (prompt not empty, ids in range, context length, adapter known: not_found)
  // and queues it. resource_exhausted when the queue is full, unavailable when draining.
  virtual Result<std::unique_ptr<Generation>> submit(GenerationRequest request) = 0;

  // Compiles what a request's text must be, so that submit() need not
  // (GenerationRequest::compiled). `done` is called once, from here or later from another thread;
  // it must be quick and may not throw. invalid_argument says what is wrong with the constraint or
  // that it takes too long. A service that has others do it gives null, and passes the constraint
  // on.
  using ConstraintDone = std::function<void(Result<std::shared_ptr<const CompiledConstraint>>)>;
  virtual void compile(const TextConstraint& /*constraint*/, ConstraintDone done) {
    const ConstraintDone once = std::move(done);
    once(std::shared_ptr<const CompiledConstraint>());
  }

  // already_exists when the name is taken by other content and not `in_place`; the same content
  // again is a success. Loading happens on the calling thread; the engine keeps running.
  virtual Status load_adapter(const std::string& name, const std::string& path, bool in_place,
                              bool pinned) = 0;
  // Running requests keep the adapter until they end; new ones get not_found at once.
  virtual Status unload_adapter(const std::string& name) = 0;
  virtual std::vector<AdapterInfo> adapters() const = 0;
  virtual EngineStats stats() const = 0;
  virtual bool has_adapter(const std::string& name) const = 0;
  virtual AdapterFolder adapter_folder(const std::string& /*name*/) const { return {}; }
  // One of the files of the adapter that has this digest (AdapterInfo::digest). not_found: there is
  // no such adapter or file, or the file is no longer the one that the adapter was read from.
  virtual Result<AdapterFile> open_adapter_file(const std::string& digest,
                                                std::string_view /*file*/) const {
    return error(StatusCode::not_found, "no adapter here has the digest {}", digest);
  }

  // For who chooses among engines, and asks many times a second: a copy of what the engine told
  // last, at most a few milliseconds ago or as of its last step. `step_ends_s` counts from now.
  virtual EngineView view() const { return {}; }
  // By name. Takes time with their number, and no lock that a step waits for.
  virtual std::vector<AdapterPresence> presences() const { return {}; }

  // For people who look on: the last cold starts, oldest first, and the CPU workers.
  virtual std::vector<ColdStart> cold_starts() const { return {}; }
  virtual std::vector<CpuWorker> cpu_workers() const { return {}; }
  virtual LearnedCosts learned_costs() const { return {}; }

  // Refuses new requests from now on; running and waiting ones finish.
  virtual void drain() = 0;
  // Takes new requests again.
  virtual void resume() {}
  virtual bool ready() const = 0;
  // What GenerationRequest::constraint asks for is what the text will be; else requests that need
  // one are not to be submitted.
  virtual bool enforces_constraints() const { return false; }
};

}  // namespace tandem
