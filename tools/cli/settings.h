// The settings that several commands share: which model to serve from what, and how to serve it.
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

  // Without what is computed of the settings below.
  EngineOptions options;
  // Model
  std::string model;
  std::string served_model_name;  // empty: the folder's name
  std::string dtype = "auto";
  std::string load_format = "auto";
  std::int64_t seed = 0;
  std::string chat_template;  // file; empty: the checkpoint's own
  std::string special_tokens_in_content = "tokens";
  // Adapters
  std::string adapters;              // folder of adapter folders
  std::vector<std::string> adapter;  // NAME=DIR
  bool strict_adapters = false;      // one of `adapters` that cannot be used is an error
  bool follow_links_outside = false;
  double host_tier_gb = 0;        // 0: chosen
  std::string profile;            // file that `tandem profile` wrote; empty: built-in figures
  std::string learned_costs;      // folder; "none": nothing is kept; empty: in the user's cache
  double cost_error = 1;          // times by which figures are to be too long: benchmarks' alone
  bool calibrate = true;          // where neither a certain profile nor anything learnt is there
  std::int64_t cpu_workers = -1;  // -1: chosen
  std::string worker_cpus;        // "4-15"; empty: chosen
  // Device
  std::string device = "auto";
  std::int64_t tensor_parallel = 1;  // devices that share the model
  std::string gpus;                  // "0,1": a GPU for each; empty: the first ones
  std::string collectives = "auto";
  std::int64_t threads = 0;  // 0: one per physical core that this process may use
  std::string cpus;          // "0-3,8"; empty: all that this process may use
  bool pin = true;
  bool slow_cores = false;  // of a machine with several kinds
  bool claim_cores = true;  // leave other engines' cores alone, and tell them of ours
  double link_gbps = 0;     // gigabytes per second; 0: not throttled
  // Batching
  std::int64_t max_model_len = 0;  // 0: the model's context
  std::string queue_order = "priority";
  // Page pool
  double pool_gb = 0;  // 0: automatic
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
  std::string advertise;      // URL; empty: of host and port
  std::string adapter_store;  // folder; empty: nothing is fetched from other engines
  std::uint64_t adapter_store_bytes = 10'000'000'000;
  bool verify_base = false;
  TracingOptions tracing;
};

// Which of them a command takes as flags. The others are another command's, accepted in config
// files only, so that one file is good for all commands. Model, device and log are everybody's.
struct OfferedSettings {
  bool adapters = false;  // folder, mode and limits
  bool handoff = false;
  bool adapter = false;  // NAME=DIR
  bool batching = false;
  bool server = false;
};

// Adds the rows of both structs, in the one order that help and files show them in.
void add_engine_settings(SettingsTable& table, EngineSettings& engine, ServerSettings& server,
                         const OfferedSettings& offered);
// All of them, as `tandem serve` takes them.
void add_serve_settings(SettingsTable& table, EngineSettings& engine, ServerSettings& server);

// For commands that have no engine.
void add_device_settings(SettingsTable& table, EngineSettings& settings);

struct NamedAdapter {
  std::string name;
  std::string path;       // absolute, links resolved
  bool is_found = false;  // below --adapters, which nobody named one by one
};

// The adapters that --adapters and --adapter name, each name once. A folder that cannot be read,
// an empty one, and a bad or repeated name are errors.
Result<std::vector<NamedAdapter>> list_adapters(const std::string& folder,
                                                const std::vector<std::string>& named);

}  // namespace tandem
