// The options of an engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file/file.h"
#include "engine/batching/line/line_options.h"
#include "engine/handoff/handoff_options.h"
#include "engine/recording/recording.h"
#include "engine/service/adapter_mode.h"
#include "engine/service/engine_defaults.h"
#include "engine/service/lora_sharding.h"

namespace tandem {

struct EngineOptions {
  std::int32_t max_num_seqs = 256;
  std::int32_t max_num_batched_tokens = 512;
  std::int32_t max_prefill_chunk = 0;  // 0: only max_num_batched_tokens limits a chunk
  std::int32_t max_model_len = 0;      // tokens of prompt and output; > 0
  std::int32_t num_pages = 0;          // at least one sequence of max_model_len must fit
  std::int32_t page_tokens = engine_defaults::kPageTokens;
  bool prefix_cache = true;
  std::size_t grammar_cache_bytes = std::size_t{64} << 20;
  std::optional<std::string> constraint_program = {};  // as ConstraintOptions::program
  std::int32_t max_queue = 4096;                       // waiting continuations, then 429
  LineOptions line = {};                               // the order in which they wait
  std::int32_t max_adapters = 4096;                    // loaded at once, in any tier
  // On the device at once, if there are pages for them.
  std::int32_t max_device_adapters = 1024;
  std::int32_t max_lora_rank = 2048;
  std::int32_t max_added_tokens = 256;  // that an adapter may have beyond the base's vocabulary
  // Shared memory for adapters, an equal share on the node of each of the handoff's groups.
  std::size_t host_tier_bytes = std::size_t{64} << 20;
  LinkRule adapter_links = {};               // for adapters' folders
  std::vector<std::string> base_names = {};  // names of the model in adapters; empty: unknown
  AdapterMode adapter_mode = AdapterMode::pipelined;
  LoraSharding lora_sharding = LoraSharding::automatic;  // for devices that share the model
  HandoffOptions handoff;            // for modes that hand over; no groups: no workers
  bool overlap = true;               // prepare a step while the one before it runs
  bool just_in_time = true;          // enqueue it shortly before that ends; false: at once
  std::int32_t max_graph_batch = 0;  // most rows of a decode step with a graph; 0: no graphs
  bool record_at_start = false;      // record all graphs before the first request
  bool tune_at_start = false;        // measure the fastest way to compute the products
  double calibrate_s = 0;            // time for measuring costs before the first request
  RecordingOptions recording;        // of its steps
};

}  // namespace tandem
