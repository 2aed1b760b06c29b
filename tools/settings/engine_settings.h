// Settings that several commands share: the model, where it is, and how it is served.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/settings/settings.h"
#include "base/status.h"
#include "engine/batching/engine_options.h"
#include "engine/server/options/server_options.h"
#include "tools/cli/log_settings.h"
#include "tools/cli/trace_settings.h"

namespace tandem {

struct EngineSettings {
  EngineSettings() { options.adapter_mode = AdapterMode::planned; }

  // Without the members that are computed from the settings below.
  EngineOptions options;
  // Model
  std::string model;
  std::string served_model_name;  // empty: the folder's name
  std::string dtype = "auto";
  std::string load_format = "auto";
  std::string weights = "bf16";  // of dummy weights
  std::int64_t seed = 0;
  std::string chat_template;  // file; empty: the checkpoint's own
  std::string special_tokens_in_content = "tokens";
  // Adapters
  std::string adapters;              // folder of adapter folders
  std::vector<std::string> adapter;  // NAME=DIR
  bool strict_adapters = false;      // an unusable adapter among `adapters` is an error
  bool follow_links_outside = false;
  double host_tier_gb = 0;        // 0: chosen automatically
  std::string profile;            // file that `tandem profile` wrote; empty: built-in figures
  std::string learned_costs;      // folder; "none": nothing is kept; empty: in the user's cache
  double cost_error = 1;          // factor by which costs are made too high; for benchmarks only
  bool calibrate = true;          // if there is no reliable profile and nothing was learned
  std::int64_t cpu_workers = -1;  // -1: chosen automatically
  std::string worker_cpus;        // "4-15"; empty: chosen automatically
  // Device
  std::string device = "auto";
  std::int64_t tensor_parallel = 1;  // devices that share the model
  std::string gpus;                  // "0,1": a GPU for each; empty: the first ones
  std::string collectives = "auto";
  std::int64_t threads = 0;  // 0: one per physical core that this process may use
  std::string cpus;          // "0-3,8"; empty: all that this process may use
  bool pin = true;
  bool slow_cores = false;  // use the slow cores, too, on a machine with several kinds
  bool claim_cores = true;  // avoid the cores that other engines claimed, and claim ours
  double link_gbps = 0;     // gigabytes per second; 0: not throttled
  // Batching
  std::int64_t max_model_len = 0;  // 0: the model's context
  std::string queue_order = "priority";
  // Page pool
  double pool_gb = 0;  // 0: chosen automatically
  std::string graphs = "auto";
  std::int64_t max_graph_batch = 256;
  std::string record_steps;  // file; empty: none
  LogSettings log;
};

struct ServerSettings {
  ServerOptions options;  // without adapter_roots, early_abort and the limit of one answer
  std::vector<std::string> adapter_root;
  std::string tool_call_parser = "auto";
  std::string generation_config = "auto";
  double drain_timeout_s = 30;
  std::string registry;       // URL; empty: none
  std::string advertise;      // URL; empty: made from host and port
  std::string adapter_store;  // folder; empty: nothing is fetched from other engines
  std::uint64_t adapter_store_bytes = 10'000'000'000;
  bool verify_base = false;
  TracingOptions tracing;
};

// The groups of settings that a command offers as flags. Settings of other commands are accepted in
// config files only, so that one file suits all commands. Model, device and log are always offered.
struct OfferedSettings {
  bool adapters = false;  // folder, mode and limits
  bool handoff = false;
  bool adapter = false;  // NAME=DIR
  bool batching = false;
  bool server = false;
};

// Adds the rows of both structs in the order in which help and files show them.
void add_engine_settings(SettingsTable& table, EngineSettings& engine, ServerSettings& server,
                         const OfferedSettings& offered);
// Adds all rows as flags, for `tandem serve`.
void add_serve_settings(SettingsTable& table, EngineSettings& engine, ServerSettings& server);

// Adds the rows for commands that have no engine.
void add_device_settings(SettingsTable& table, EngineSettings& settings);

struct NamedAdapter {
  std::string name;
  std::string path;       // absolute, links resolved
  bool is_found = false;  // found below --adapters, not named by the user
};

// Returns the adapters named by --adapters and --adapter. An unreadable or empty folder and an
// invalid or repeated name are errors.
Result<std::vector<NamedAdapter>> list_adapters(const std::string& folder,
                                                const std::vector<std::string>& named);

}  // namespace tandem
