#include "tools/bench/serve/serve_bench_settings.h"

#include <functional>

#include "tools/bench/serve/plan/datasets.h"

namespace tandem {
namespace {

constexpr double kManyTokens = 10'000'000;

using Adder = const std::function<SettingsField&(SettingsFacts::Target, const char*, const char*)>&;

// What vLLM's and SGLang's benchmarks call servers that speak as OpenAI does. (To SGLang's own,
// `sglang` is its /generate; here it is asked as others are.)
std::vector<std::string> backend_names() {
  return {"openai", "openai-chat", "vllm", "vllm-chat", "sglang", "sglang-oai", "sglang-oai-chat"};
}

void add_server(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Server");
  add(&s.base_url, "base_url", "http://HOST:PORT or https; instead of host and port").meta("URL");
  add(&s.host, "host", "of the server");
  add(&s.port, "port", "of the server").range(1, 65535);
  add(&s.endpoint, "endpoint", "the path that is asked; by default the backend's").meta("PATH");
  add(&s.backend, "backend", "how it is asked: for completions or, if it ends in -chat, for chats")
      .choices(backend_names());
  add(&s.model, "model",
      "the base model's name, or its folder, whose tokenizer then counts; by default the first "
      "that the server lists")
      .meta("NAME|DIR");
  add(&s.served_model_name, "served_model_name", "the name in requests, if it is not --model's")
      .meta("NAME");
  add(&s.tokenizer, "tokenizer", "folder with a tokenizer.json, to count and to make prompts")
      .meta("DIR");
  add(&s.headers, "header", "of each request; the variable OPENAI_API_KEY becomes one by itself")
      .meta("NAME=VALUE")
      .many();
  add(&s.ready_check_timeout_sec, "ready_check_timeout_sec", "to wait for the server to answer")
      .meta("S")
      .range(0, 86'400);
}

void add_requests(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Requests");
  add(&s.dataset_name, "dataset_name", "where prompts and lengths are from (docs/bench-serve.md)")
      .choices(dataset_names());
  add(&s.dataset_path, "dataset_path", "of sharegpt, custom and timed_trace").meta("FILE");
  add(&s.num_prompts, "num_prompts", "requests").range(1, 10'000'000);
  add(&s.input_len, "input_len", "tokens of a random prompt").range(1, kManyTokens);
  add(&s.output_len, "output_len",
      "tokens of each answer; 0: what the data set says, of random 128, of custom 256")
      .range(0, kManyTokens);
  add(&s.random_range_ratio, "random_range_ratio",
      "R: random lengths lie between 1 - R and 1 + R times theirs")
      .range(0, 0.999);
  add(&s.random_prefix_len, "random_prefix_len", "tokens that all random prompts begin with")
      .range(0, kManyTokens);
  add(&s.prefix_repetition_prefix_len, "prefix_repetition_prefix_len",
      "tokens that some prompts begin with alike; input_len more follow")
      .range(1, kManyTokens);
  add(&s.prefix_repetition_num_prefixes, "prefix_repetition_num_prefixes", "such beginnings")
      .range(1, 1'000'000);
  add(&s.trace_block_tokens, "trace_block_tokens", "that a hash of a timed trace stands for")
      .range(1, 65'536);
  add(&s.trace_speed, "trace_speed", "a timed trace is played so many times as fast")
      .range(0.001, 1000);
  add(&s.prompts_as, "prompts_as",
      "token ids or texts; auto: ids for completions, which every tokenizer counts alike, else "
      "text")
      .choices({"auto", "ids", "text"});
  add(&s.vocab_size, "vocab_size",
      "without a tokenizer random ids are below it; 0: 3000, which every vocabulary has")
      .range(0, kManyTokens);
  add(&s.ignore_eos, "ignore_eos", "answers go on to their full length");
  add(&s.temperature, "temperature", "of requests").range(0, 100);
  add(&s.top_p, "top_p", "of requests; 0: left out").range(0, 1);
  add(&s.extra_body, "extra_body", "more fields of requests").meta("JSON");
  add(&s.seed, "seed", "of prompts, arrivals and adapters").at_least(0);
}

void add_arrivals(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Arrivals");
  add(&s.request_rate, "request_rate",
      "requests a second, whether or not others are answered; inf: all at once")
      .meta("X|inf");
  add(&s.burstiness, "burstiness",
      "shape of the pauses' gamma distribution: 1 is Poisson, less is burstier, more is steadier")
      .range(0.001, 1e9);
  add(&s.burst_size, "burst_size", "requests that come together").range(1, 1'000'000);
  add(&s.burst_pause_s, "burst_pause_s",
      "a burst begins so long after the last answer of the one before; -1: by the rate")
      .range(-1, 86'400);
  add(&s.max_concurrency, "max_concurrency", "requests that run at once; 0: any number")
      .range(0, 1'000'000);
  add(&s.ramp_up_strategy, "ramp_up_strategy",
      "instead of a rate: linear or exponential, from the start's to the end's")
      .meta("linear|exponential");
  add(&s.ramp_up_start_rps, "ramp_up_start_rps", "requests a second").range(0, 1e6);
  add(&s.ramp_up_end_rps, "ramp_up_end_rps", "requests a second").range(0, 1e6);
  add(&s.request_timeout, "request_timeout", "seconds, then a request has failed")
      .meta("S")
      .range(0.001, 86'400);
}

void add_adapters(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Adapters");
  add(&s.lora_modules, "lora_modules",
      "names that requests are for; all: those that the server lists")
      .meta("NAME")
      .many();
  add(&s.lora_assignment, "lora_assignment", "drawn at random, or in turn")
      .choices({"random", "round-robin"});
  add(&s.lora_request_distribution, "lora_request_distribution",
      "of random: as often each, each once, by Zipf's law, or as functions of the Azure trace")
      .choices({"uniform", "distinct", "skewed", "azure"});
  add(&s.lora_zipf_alpha, "lora_zipf_alpha",
      "of skewed: the n-th name is asked for 1 / n^ALPHA as often as the first")
      .meta("ALPHA")
      .range(0, 10);
  add(&s.lora_mix, "lora_mix", "instead: shares of names, and of base").meta("NAME=SHARE").many();
  add(&s.lora_rates, "lora_rates", "instead: requests a second of each, with arrivals of its own")
      .meta("NAME=X")
      .many();
  add(&s.warm_adapters, "warm_adapters", "one request for each before the run, not counted");
  add(&s.num_warmups, "num_warmups", "requests for the base before the run, not counted")
      .range(0, 100'000);
}

void add_figures(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Figures");
  add(&s.goodput, "goodput", "objectives in ms: ttft:MS, tpot:MS, e2el:MS").meta("NAME:MS").many();
  add(&s.percentile_metrics, "percentile_metrics", "whose spread is told").meta("NAME,...");
  add(&s.metric_percentiles, "metric_percentiles", "that are told").meta("NN,...");
  add(&s.count_from, "count_from",
      "when delays begin: when a request is due, or when it is sent (as vLLM's benchmark counts)")
      .choices({"due", "sent"});
  add(&s.sweep, "sweep", "runs at rates or limits that double, and finds the knee between them")
      .meta("request-rate=A..B|max-concurrency=A..B");
  add(&s.sweep_attainment, "sweep_attainment",
      "the share of requests, of the objectives or of the rate, that a good run has")
      .range(0.01, 1);
  add(&s.compare, "compare", "no run: two results of --save-result side by side")
      .meta("FILE")
      .many();
  add(&s.stub, "stub", "no server: one of its own, which shows what this program can do here");
  add(&s.stub_ttft_ms, "stub_ttft_ms", "until the stub's first token").range(0, 1e6);
  add(&s.stub_tpot_ms, "stub_tpot_ms", "between the stub's tokens; 0: all in one piece")
      .range(0, 1e6);
}

void add_output(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Output");
  add(&s.save_result, "save_result", "write the figures as JSON");
  add(&s.save_detailed, "save_detailed", "with each request's times and text");
  add(&s.result_dir, "result_dir", "where results are written").meta("DIR");
  add(&s.result_filename, "result_filename", "by default made of label, rate, model and time")
      .meta("FILE");
  add(&s.json, "json", "--save-result into this file").meta("FILE");
  add(&s.html, "html", "write a page with plots").meta("FILE");
  add(&s.label, "label", "of the result");
  add(&s.metadata, "metadata", "for the result").meta("KEY=VALUE").many();
}

}  // namespace

void add_serve_bench_settings(SettingsTable& table, ServeBenchSettings& settings) {
  const auto add = [&](SettingsFacts::Target target, const char* key,
                       const char* help) -> SettingsField& {
    return table.add(target, key, help).flag_only();
  };
  add_server(table, add, settings);
  add_requests(table, add, settings);
  add_arrivals(table, add, settings);
  add_adapters(table, add, settings);
  add_figures(table, add, settings);
  add_output(table, add, settings);
}

}  // namespace tandem
