// What `tandem bench serve` can be told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/settings/settings.h"

namespace tandem {

struct ServeBenchSettings {
  // Server
  std::string base_url;
  std::string host = "127.0.0.1";
  std::int64_t port = 8000;
  std::string endpoint;
  std::string backend = "openai";
  std::string model;
  std::string served_model_name;
  std::string tokenizer;
  std::vector<std::string> headers;
  double ready_check_timeout_sec = 0;
  // Requests
  std::string dataset_name = "random";
  std::string dataset_path;
  std::int64_t num_prompts = 1000;
  std::int64_t input_len = 1024;
  std::int64_t output_len = 0;
  double random_range_ratio = 0;
  std::int64_t random_prefix_len = 0;
  std::int64_t prefix_repetition_prefix_len = 256;
  std::int64_t prefix_repetition_num_prefixes = 10;
  std::int64_t trace_block_tokens = 512;
  double trace_speed = 1;
  std::string prompts_as = "auto";
  std::int64_t vocab_size = 0;
  bool ignore_eos = false;
  double temperature = 0;
  double top_p = 0;
  std::string extra_body;
  std::int64_t seed = 0;
  // Arrivals
  std::string request_rate = "inf";
  double burstiness = 1;
  std::int64_t burst_size = 1;
  double burst_pause_s = -1;
  std::int64_t max_concurrency = 0;
  std::string ramp_up_strategy;
  double ramp_up_start_rps = 0;
  double ramp_up_end_rps = 0;
  double request_timeout = 600;
  // Adapters
  std::vector<std::string> lora_modules;
  std::string lora_assignment = "random";
  std::string lora_request_distribution = "uniform";
  double lora_zipf_alpha = 1.5;
  std::vector<std::string> lora_mix;
  std::vector<std::string> lora_rates;
  bool warm_adapters = false;
  std::int64_t num_warmups = 0;
  // Figures
  std::vector<std::string> goodput;
  std::string percentile_metrics = "ttft,tpot,itl,e2el";
  std::string metric_percentiles = "90,99";
  std::string count_from = "due";
  std::string sweep;
  double sweep_attainment = 0.95;
  std::vector<std::string> compare;
  bool stub = false;
  double stub_ttft_ms = 0;
  double stub_tpot_ms = 0;
  // Output
  bool save_result = false;
  bool save_detailed = false;
  std::string result_dir;
  std::string result_filename;
  std::string json;
  std::string html;
  std::string label;
  std::vector<std::string> metadata;
};

void add_serve_bench_settings(SettingsTable& table, ServeBenchSettings& settings);

}  // namespace tandem
