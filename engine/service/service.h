// The interface between the server and an engine. One engine implements it in this process; the
// cluster router will implement it for many.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file/file.h"
#include "base/file/file_identity.h"
#include "base/status.h"
#include "engine/service/cold_start.h"
#include "engine/service/counted_values.h"
#include "engine/service/cpu_worker.h"
#include "engine/service/generation.h"
#include "engine/service/learned_costs.h"
#include "scheduler/cluster/view/engine_view.h"

namespace tandem {

struct AdapterInfo {
  std::string name;
  std::string path;
  std::string digest;
  std::int32_t rank = 0;             // maximum over its modules
  std::vector<std::string> modules;  // "q_proj", ...
  std::int64_t labels = 0;           // of its score head; 0: it has none
  std::int64_t vocab_size = 0;       // 0: the base's
  std::uint64_t bytes = 0;
  std::string tier;  // "disk", "host", "loading", "device"
  bool pinned = false;
  std::int64_t loaded_unix = 0;  // seconds since the epoch
  std::int32_t running = 0;      // number of requests
  std::int32_t waiting = 0;
  std::uint64_t hits = 0;         // requests that found it on the device
  std::uint64_t cold_starts = 0;  // requests that did not
};

// An adapter's state for a router. The strings are shared with the engine, so that no text is
// copied.
struct AdapterPresence {
  std::shared_ptr<const std::string> name;
  std::shared_ptr<const std::string> digest;
  std::int32_t rank = 0;
  std::uint64_t bytes = 0;
  AdapterTier tier = AdapterTier::absent;  // absent: only in its folder
  std::int32_t active = 0;                 // requests that are running or waiting
  bool pinned = false;
};

// An opened file that an adapter was read from, to be sent to another engine.
struct AdapterFile {
  File file;
  FileIdentity identity;  // if it differs after reading, another file was read
};

class Tokenizer;

// The other files in an adapter's folder.
struct AdapterFolder {
  // Identifies one loading of the adapter; it is another after the adapter was loaded again.
  std::weak_ptr<const void> loaded;
  // Returns the text of one of the folder's files, of at most 64 MiB, by the rules for the weights;
  // not_found if there is no such file. Thread-safe. Empty: the adapter has no folder.
  std::function<Result<std::string>(const std::string& file)> read;
};

struct EngineStats {
  std::int32_t running = 0;  // sequences
  std::int32_t waiting = 0;
  std::int32_t page_tokens = 0;  // tokens in a page
  std::int64_t pages_total = 0;
  std::int64_t pages_kv = 0;       // pages of sequences
  std::int64_t pages_cached = 0;   // pages of the prefix cache alone, which can be reclaimed
  std::int64_t pages_adapter = 0;  // pages of adapters
  std::int64_t pages_free = 0;
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0;  // prompt tokens that were computed
  std::uint64_t generation_tokens = 0;
  std::uint64_t preemptions = 0;
  // Sequences given up before they began because their first token was already overdue, or would
  // have been by the end of a prefill begun at once.
  std::uint64_t aborts_expired = 0;
  std::uint64_t aborts_unreachable = 0;
  std::int32_t tenants = 0;          // with waiting or running sequences; 0 if fairness is off
  bool overloaded = false;           // more requests arrive than are admitted
  double longest_prefill_s = 0;      // recent, from a request's first step to its first token
  std::uint64_t prefix_queries = 0;  // prompt tokens looked up in the prefix cache
  std::uint64_t prefix_hits = 0;     // of those, found
  double step_seconds_total = 0;     // device busy
  double host_seconds_total = 0;     // engine thread busy, mostly while the device is
  double gap_seconds_total = 0;      // device idle because the engine thread was busy
  // Steps by the time of their planning. "In time" means as late as possible before the end of the
  // previous step, so that requests that arrived meanwhile were included.
  std::uint64_t steps_at_once = 0;
  std::uint64_t steps_in_time = 0;
  std::uint64_t steps_late = 0;  // planned too late, so that the device idled briefly
  double enqueue_margin_s = 0;   // planned lead before the expected end of a step; 0: unknown
  CountedValues<kInterTokenBounds.size()> inter_token;  // seconds between two tokens of a sequence
  CountedValues<kStepTokensBounds.size()> step_tokens;  // tokens computed by one step
  std::uint64_t adapter_loads = 0;                      // completed loads to the device
  std::uint64_t adapter_loaded_bytes = 0;
  CountedValues<kAdapterLoadBounds.size()> adapter_load;  // seconds from the order to the arrival
  std::uint64_t adapter_evictions = 0;
  std::uint64_t adapter_early_arrivals = 0;  // used before the last byte came from another engine
  // The handoff of cold adapters' rows to CPU workers.
  std::int32_t cpu_workers = 0;  // running workers
  std::uint64_t worker_restarts = 0;
  double worker_busy_s = 0;              // sum over all workers
  std::uint64_t handoff_steps = 0;       // steps with rows of adapters that were still loading
  std::uint64_t handoff_rows = 0;        // rows of these adapters
  std::uint64_t handoff_cpu_layers = 0;  // layers of those, computed by workers
  std::uint64_t handoff_gpu_layers = 0;  // layers offered to workers whose weights arrived first
  std::uint64_t handoff_timed_out = 0;   // groups of rows that workers left without an answer
  std::uint64_t replays = 0;             // sequences computed again because of that
  double handoff_planned_seconds = 0;    // planned duration of the steps
  double handoff_actual_seconds = 0;
  // The median over the last planned steps, including plans to wait: 0.1 means 10 % of the plan.
  double handoff_plan_error = 0;
  std::uint64_t host_tier_bytes = 0;
  std::uint64_t host_tier_used = 0;
};

// Thread-safe.
class GenerationService {
 public:
  virtual ~GenerationService() = default;

  // Checks the request (prompt not empty, ids in range, context length, adapter known: not_found)
  // and queues it. resource_exhausted if the queue is full, unavailable while draining.
  virtual Result<std::unique_ptr<Generation>> submit(GenerationRequest request) = 0;

  // Compiles the constraint in advance, so that submit() need not (GenerationRequest::compiled).
  // `done` is called once, on this thread or later on another; it must be quick and may not throw.
  // invalid_argument says what is wrong with the constraint, or that it takes too long. A service
  // that delegates requests passes null, and forwards the constraint.
  using ConstraintDone = std::function<void(Result<std::shared_ptr<const CompiledConstraint>>)>;
  virtual void compile(const TextConstraint& /*constraint*/, ConstraintDone done) {
    const ConstraintDone once = std::move(done);
    once(std::shared_ptr<const CompiledConstraint>());
  }

  // already_exists if the name is in use for other content and `in_place` is false; loading the
  // same content again succeeds. Runs on the calling thread; the engine keeps running.
  virtual Status load_adapter(const std::string& name, const std::string& path, bool in_place,
                              bool pinned) = 0;
  // Running requests keep the adapter until they end; new requests get not_found at once.
  virtual Status unload_adapter(const std::string& name) = 0;
  virtual std::vector<AdapterInfo> adapters() const = 0;
  // The sets of adapters that requests named together, as far as they are kept ("a+b").
  virtual std::vector<AdapterInfo> adapter_sets() const { return {}; }
  virtual EngineStats stats() const = 0;
  virtual bool has_adapter(const std::string& name) const = 0;
  virtual AdapterFolder adapter_folder(const std::string& /*name*/) const { return {}; }
  // The tokenizer of requests with this adapter; null: the base's.
  virtual std::shared_ptr<const Tokenizer> adapter_tokenizer(const std::string& /*name*/) const {
    return nullptr;
  }
  // Opens a file of the adapter with this digest (AdapterInfo::digest). not_found: there is no such
  // adapter or file, or the file has changed since the adapter was read from it.
  virtual Result<AdapterFile> open_adapter_file(const std::string& digest,
                                                std::string_view /*file*/) const {
    return error(StatusCode::not_found, "no adapter here has the digest {}", digest);
  }

  // For routers, many times a second: returns a copy of the engine's last report, at most a few
  // milliseconds old or as of its last step. `step_ends_s` counts from now.
  virtual EngineView view() const { return {}; }
  // The adapters, by name. Takes time proportional to their number, and no lock that a step waits
  // for.
  virtual std::vector<AdapterPresence> presences() const { return {}; }

  // For monitoring: the last cold starts, oldest first, and the CPU workers.
  virtual std::vector<ColdStart> cold_starts() const { return {}; }
  virtual std::vector<CpuWorker> cpu_workers() const { return {}; }
  virtual LearnedCosts learned_costs() const { return {}; }

  // Refuses new requests from now on; running and waiting requests finish.
  virtual void drain() = 0;
  // Accepts new requests again.
  virtual void resume() {}
  virtual bool ready() const = 0;
  // Whether texts are guaranteed to satisfy GenerationRequest::constraint. If false, requests with
  // a constraint may not be submitted.
  virtual bool enforces_constraints() const { return false; }
};

}  // namespace tandem
