// The settings that several commands share: which model to serve from what, and how to serve it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/settings.h"
#include "engine/base/status.h"

namespace tandem {

struct EngineSettings {
  // Model
  std::string model;
  std::string served_model_name;  // empty: the folder's name
  std::string dtype = "auto";
  std::string load_format = "auto";
  std::int64_t seed = 0;
  // Adapters
  std::string adapters;              // folder of adapter folders
  std::vector<std::string> adapter;  // NAME=DIR
  std::int64_t max_adapters = 4096;
  std::int64_t max_device_adapters = 1024;
  double host_tier_gb = 0;  // 0: chosen
  std::string adapter_mode = "planned";
  std::string profile;            // file that `tandem profile` wrote; empty: built-in figures
  std::int64_t cpu_workers = -1;  // -1: chosen
  std::string worker_cpus;        // "4-15"; empty: chosen
  double worker_spin_ms = 20;
  double handoff_deadline_ms = 200;
  std::int64_t handoff_tokens = 512;
  std::int64_t max_lora_rank = 512;
  // Device
  std::string device = "auto";
  std::int64_t gpu = 0;      // index of the CUDA GPU
  std::int64_t threads = 0;  // 0: one per physical core that this process may use
  std::string cpus;          // "0-3,8"; empty: all that this process may use
  bool pin = true;
  double link_gbps = 0;  // gigabytes per second; 0: not throttled
  // Batching
  std::int64_t max_model_len = 0;  // 0: the model's context
  std::int64_t max_num_seqs = 256;
  std::int64_t max_num_batched_tokens = 512;
  std::int64_t max_queue = 4096;
  // Page pool
  double pool_gb = 0;           // 0: automatic
  std::int64_t pool_pages = 0;  // 0: from pool_gb
  std::int64_t page_tokens = 16;
  bool prefix_cache = true;
  bool overlap = true;
  std::string graphs = "auto";
  std::int64_t max_graph_batch = 256;
  // Log
  std::string log_level = "info";
};

struct ServerSettings {
  std::string host = "127.0.0.1";
  std::int64_t port = 8000;
  std::string api_key;
  std::vector<std::string> adapter_root;
  std::int64_t max_connections = 1024;
  double max_body_mb = 8;
  double drain_timeout_s = 30;
};

// Adds the rows of a struct. `offered` false: another command's, accepted in config files only.
void add_model_settings(SettingsTable& table, EngineSettings& settings);
void add_device_settings(SettingsTable& table, EngineSettings& settings);
void add_log_settings(SettingsTable& table, EngineSettings& settings);
void add_adapter_settings(SettingsTable& table, EngineSettings& settings, bool offered);
void add_handoff_settings(SettingsTable& table, EngineSettings& settings, bool offered);
void add_adapter_setting(SettingsTable& table, EngineSettings& settings, bool offered);
void add_batching_settings(SettingsTable& table, EngineSettings& settings, bool offered);
void add_server_settings(SettingsTable& table, ServerSettings& settings, bool offered);

// All of them, as `tandem serve` takes them.
void add_serve_settings(SettingsTable& table, EngineSettings& engine, ServerSettings& server);

struct NamedAdapter {
  std::string name;
  std::string path;
};

// The adapters that --adapters and --adapter name, each name once. A folder that cannot be read,
// an empty one, and a bad or repeated name are errors.
Result<std::vector<NamedAdapter>> list_adapters(const std::string& folder,
                                                const std::vector<std::string>& named);

}  // namespace tandem
