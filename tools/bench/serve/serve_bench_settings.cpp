#include "tools/bench/serve/serve_bench_settings.h"

#include <functional>
#include <utility>

#include "tools/bench/serve/plan/datasets.h"

namespace tandem {
namespace {

constexpr double kManyTokens = 10'000'000;

using Adder = const std::function<SettingsField&(SettingsMember, const char*, const char*)>&;

// Names that vLLM's and SGLang's benchmarks use for OpenAI-style servers. (In SGLang's own
// benchmark `sglang` means /generate; here it is used like the others.)
std::vector<std::string> backend_names() {
  return {"openai", "openai-chat", "vllm", "vllm-chat", "sglang", "sglang-oai", "sglang-oai-chat"};
}

void add_server(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Server");
  add(s.base_url, "base_url", "http://HOST:PORT or https://...; replaces --host and --port")
      .meta("URL");
  add(s.host, "host", "host name of the server");
  add(s.port, "port", "port of the server").range(1, 65535);
  add(s.endpoint, "endpoint", "path of requests; default: that of the backend").meta("PATH");
  add(s.backend, "backend", "API of the server: completions, or chats if the name ends in -chat")
      .choices(backend_names());
  add(s.model, "model",
      "name of the base model, or its folder, whose tokenizer then counts tokens; default: the "
      "first model that the server lists")
      .meta("NAME|DIR");
  add(s.served_model_name, "served_model_name",
      "model name in requests, if it differs from --model")
      .meta("NAME");
  add(s.tokenizer, "tokenizer", "folder with a tokenizer.json that counts tokens and makes prompts")
      .meta("DIR");
  add(s.headers, "header",
      "HTTP header of each request; the variable OPENAI_API_KEY adds one by itself")
      .meta("NAME=VALUE")
      .many();
  add(s.ready_check_timeout, "ready_check_timeout_sec",
      "longest wait for the server to answer, in seconds")
      .meta("S")
      .range(0, 86'400);
}

void add_requests(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Requests");
  add(s.dataset.name, "dataset_name", "source of prompts and lengths (docs/bench-serve.md)")
      .choices(dataset_names());
  add(s.dataset.path, "dataset_path", "file of sharegpt, custom or timed_trace").meta("FILE");
  add(s.plan.num_prompts, "num_prompts", "number of requests").range(1, 10'000'000);
  add(s.dataset.input_len, "input_len", "tokens of a random prompt").range(1, kManyTokens);
  add(s.dataset.output_len, "output_len",
      "tokens of each answer; 0: as the data set says; random: 128, custom: 256")
      .range(0, kManyTokens);
  add(s.dataset.range_ratio, "random_range_ratio",
      "R: random lengths lie between 1 - R and 1 + R times the given length")
      .range(0, 0.999);
  add(s.dataset.prefix_len, "random_prefix_len", "tokens that all random prompts begin with")
      .range(0, kManyTokens);
  add(s.prefix_repetition_prefix_len, "prefix_repetition_prefix_len",
      "tokens of each shared prefix; input_len more follow")
      .range(1, kManyTokens);
  add(s.dataset.num_prefixes, "prefix_repetition_num_prefixes", "number of shared prefixes")
      .range(1, 1'000'000);
  add(s.dataset.block_tokens, "trace_block_tokens",
      "tokens that one hash of a timed trace stands for")
      .range(1, 65'536);
  add(s.dataset.trace_speed, "trace_speed", "factor by which a timed trace is replayed faster")
      .range(0.001, 1000);
  add(s.prompts_as, "prompts_as",
      "send prompts as token ids or as text; auto: ids for completions, so that every tokenizer "
      "counts alike, otherwise text")
      .choices({"auto", "ids", "text"});
  add(s.vocab_size, "vocab_size",
      "upper bound of random token ids without a tokenizer; 0: 3000, which every vocabulary has")
      .range(0, kManyTokens);
  add(s.ignore_eos, "ignore_eos", "ask for answers of full length, past the end token");
  add(s.temperature, "temperature", "temperature of requests").range(0, 100);
  add(s.top_p, "top_p", "top_p of requests; 0: not sent").range(0, 1);
  add(s.extra_body, "extra_body", "further fields of requests").meta("JSON");
  add(s.plan.seed, "seed", "seed of prompts, arrivals and adapters").at_least(0);
}

void add_arrivals(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Arrivals");
  add(s.request_rate, "request_rate",
      "requests a second, sent without waiting for answers; inf: all at once")
      .meta("X|inf");
  add(s.plan.arrivals.burstiness, "burstiness",
      "shape of the gamma distribution of gaps; 1: Poisson, below 1: burstier, above 1: steadier")
      .range(0.001, 1e9);
  add(s.plan.arrivals.burst_size, "burst_size", "requests that arrive together")
      .range(1, 1'000'000);
  add(s.run.burst_pause_s, "burst_pause_s",
      "seconds from the last answer of a burst to the next burst; -1: set by the rate")
      .range(-1, 86'400);
  add(s.run.max_concurrency, "max_concurrency", "most requests in progress at once; 0: no limit")
      .range(0, 1'000'000);
  add(s.plan.arrivals.ramp_up, "ramp_up_strategy",
      "how the rate grows from ramp_up_start_rps to ramp_up_end_rps; replaces --request-rate")
      .meta("linear|exponential");
  add(s.plan.arrivals.start_rps, "ramp_up_start_rps", "requests a second at the start")
      .range(0, 1e6);
  add(s.plan.arrivals.end_rps, "ramp_up_end_rps", "requests a second at the end").range(0, 1e6);
  add(s.run.request_timeout_s, "request_timeout", "seconds after which a request counts as failed")
      .meta("S")
      .range(0.001, 86'400);
}

void add_adapters(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Adapters");
  add(s.plan.adapters, "lora_modules", "adapters to request; all: those that the server lists")
      .meta("NAME")
      .many();
  add(s.plan.choice.assignment, "lora_assignment", "choose adapters at random, or in turn")
      .choices({"random", "round-robin"});
  add(s.plan.choice.distribution, "lora_request_distribution",
      "distribution of random adapters; uniform: all equally often; distinct: each once; skewed: "
      "by "
      "Zipf's law; azure: as the functions of the Azure trace")
      .choices({"uniform", "distinct", "skewed", "azure"});
  add(s.plan.choice.zipf_alpha, "lora_zipf_alpha",
      "exponent of skewed: the n-th name is requested 1 / n^ALPHA times as often as the first")
      .meta("ALPHA")
      .range(0, 10);
  add(s.lora_mix, "lora_mix",
      "shares of adapters and of base; replaces --lora-request-distribution")
      .meta("NAME=SHARE")
      .many();
  add(s.lora_rates, "lora_rates",
      "requests a second of each adapter, with arrivals of its own; replaces --request-rate")
      .meta("NAME=X")
      .many();
  add(s.warm_adapters, "warm_adapters",
      "send one request for each adapter before the run; it does not count");
  add(s.num_warmups, "num_warmups", "requests for the base model before the run; they do not count")
      .range(0, 100'000);
}

void add_figures(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Figures");
  add(s.goodput, "goodput", "latency objectives in ms: ttft:MS, tpot:MS, e2el:MS")
      .meta("NAME:MS")
      .many();
  add(s.percentile_metrics, "percentile_metrics", "metrics whose percentiles are reported")
      .meta("NAME,...");
  add(s.metric_percentiles, "metric_percentiles", "percentiles to report").meta("NN,...");
  add(s.count_from, "count_from",
      "start of delays: when a request is due, or when it is sent (as vLLM's benchmark counts)")
      .choices({"due", "sent"});
  add(s.sweep, "sweep", "run at rates or limits that double, and find the knee between them")
      .meta("request-rate=A..B|max-concurrency=A..B");
  add(s.sweep_attainment, "sweep_attainment",
      "least share of requests that meet the objectives, or of the rate, in a good run")
      .range(0.01, 1);
  add(s.compare, "compare", "compare two results of --save-result, without a run")
      .meta("FILE")
      .many();
  add(s.stub, "stub",
      "measure a built-in stub server, to see the limit of this program on this machine");
  add(s.stub_ttft_ms, "stub_ttft_ms", "milliseconds until the stub's first token").range(0, 1e6);
  add(s.stub_tpot_ms, "stub_tpot_ms",
      "milliseconds between the stub's tokens; 0: all tokens in one piece")
      .range(0, 1e6);
}

void add_output(SettingsTable& table, Adder add, ServeBenchSettings& s) {
  table.group("Output");
  add(s.save_result, "save_result", "write the figures as JSON to result_dir");
  add(s.run.keep_text, "save_detailed", "include the times and text of each request");
  add(s.result_dir, "result_dir", "folder for results").meta("DIR");
  add(s.result_filename, "result_filename",
      "name of the result file; default: made of label, rate, model and time")
      .meta("FILE");
  add(s.json, "json", "write the figures as JSON to this file").meta("FILE");
  add(s.html, "html", "write a page with figures and plots to this file").meta("FILE");
  add(s.label, "label", "label of the result");
  add(s.metadata, "metadata", "facts to store with the result").meta("KEY=VALUE").many();
}

}  // namespace

void add_serve_bench_settings(SettingsTable& table, ServeBenchSettings& settings) {
  const auto add = [&](SettingsMember member, const char* key, const char* help) -> SettingsField& {
    return table.add(std::move(member), key, help).flag_only();
  };
  add_server(table, add, settings);
  add_requests(table, add, settings);
  add_arrivals(table, add, settings);
  add_adapters(table, add, settings);
  add_figures(table, add, settings);
  add_output(table, add, settings);
}

}  // namespace tandem
