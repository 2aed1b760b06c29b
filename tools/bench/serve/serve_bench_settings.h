// Settings of `tandem bench serve`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/settings/settings.h"
#include "tools/bench/serve/load_run.h"
#include "tools/bench/serve/plan/datasets.h"
#include "tools/bench/serve/plan/load_plan.h"

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
  Duration ready_check_timeout{};
  // Requests
  DatasetOptions dataset;  // without the seed
  std::int64_t prefix_repetition_prefix_len = 256;
  std::string prompts_as = "auto";
  std::int32_t vocab_size = 0;
  bool ignore_eos = false;
  double temperature = 0;
  double top_p = 0;
  std::string extra_body;
  // Arrivals and adapters
  LoadPlanOptions plan;  // without the rate, mixes and rates
  LoadRunOptions run;    // without the model and the body
  std::string request_rate = "inf";
  std::vector<std::string> lora_mix;
  std::vector<std::string> lora_rates;
  bool warm_adapters = false;
  std::size_t num_warmups = 0;
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
  std::string result_dir;
  std::string result_filename;
  std::string json;
  std::string html;
  std::string label;
  std::vector<std::string> metadata;
};

void add_serve_bench_settings(SettingsTable& table, ServeBenchSettings& settings);

}  // namespace tandem
