#include "tools/cli/settings.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "base/folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

Status check_name(const std::string& name, const std::vector<NamedAdapter>& taken) {
  if (name.empty()) return invalid("adapter: the name before '=' is empty");
  const bool twice = std::any_of(taken.begin(), taken.end(),
                                 [&](const NamedAdapter& other) { return other.name == name; });
  if (twice) return invalid("adapter: the name '{}' is given twice", name);
  return {};
}

// What REST tells of a folder can be given back to it, and there a relative path is one below an
// adapter_root. A link counts as what it leads to at the start; when the folder is read again,
// none is followed.
Result<std::string> real_path(const fs::path& path) {
  const Result<fs::path> real = resolve_links(path);
  if (!real) return real.status().with_context("adapter");
  return real->string();
}

std::vector<std::string> adapter_mode_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kAdapterModes));
  for (const AdapterMode mode : kAdapterModes) names.emplace_back(to_string(mode));
  return names;
}

std::vector<std::string> lora_sharding_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kLoraShardings));
  for (const LoraSharding sharding : kLoraShardings) names.emplace_back(to_string(sharding));
  return names;
}

// Adds rows under one heading, all of them offered as flags or none.
struct Adder {
  SettingsTable& table;
  const char* group;
  bool offered;

  template <typename T>
  SettingsField& operator()(T& member, const char* key, const char* help) {
    table.group(group);
    SettingsField& field = table.add(member, key, help);
    if (!offered) field.in_file_only();
    return field;
  }
};

void add_model_settings(SettingsTable& table, EngineSettings& s) {
  table.group("Model");
  const bool has_default = s.model == "auto";  // commands that measure
  table
      .add(s.model, "model",
           has_default ? "checkpoint folder or a shape, such as llama-2-7b; auto: that on a GPU, "
                         "llama-3.2-1b on the host"
                       : "checkpoint folder: config.json, tokenizer.json, *.safetensors")
      .meta("DIR")
      .required();
  table.add(s.served_model_name, "served_model_name",
            "what requests call the base model; default: the folder's name");
  table
      .add(s.dtype, "dtype",
           "type to compute in; auto: the checkpoint's own, on a GPU bf16 instead of f32")
      .choices({"auto", "bf16", "f16", "f32", "bfloat16", "float16", "half", "float32", "float"});
  table.add(s.load_format, "load_format", "dummy: random weights of the config's shape, no files")
      .choices({"auto", "dummy"});
  table
      .add(s.chat_template, "chat_template",
           "Jinja template that renders all chats, in place of the checkpoint's and adapters' own")
      .meta("FILE");
  table
      .add(
          s.special_tokens_in_content, "special_tokens_in_content",
          "what a special token becomes that is written out in a chat's message, tool or document; "
          "text: no message can end its turn or begin another")
      .choices({"tokens", "text"});
  table.add(s.seed, "seed", "of dummy weights and, in generate, of sampling").at_least(0);
}

void add_adapter_settings(SettingsTable& table, EngineSettings& s, bool offered) {
  Adder add{table, "Adapters", offered};
  add(s.adapters, "adapters",
      "each subfolder with an adapter_config.json is an adapter of that name")
      .meta("DIR");
  add(s.strict_adapters, "strict_adapters",
      "a subfolder of adapters that cannot be used ends the start; else it is left out, and "
      "/v1/adapters says why");
  add(s.follow_links_outside, "follow_links_outside",
      "links in an adapter's folder may lead out of it, as Hugging Face's cache has them");
  add(s.max_adapters, "max_adapters", "adapters loaded at once, in whatever tier")
      .range(0, 1000000);
  add(s.max_device_adapters, "max_device_adapters",
      "adapters on the device at once, if the page pool has room for them")
      .range(0, 65536);
  add(s.host_tier_gb, "host_tier_gb",
      "shared memory for adapters, a share for each NUMA node with CPU workers; those that fall "
      "out "
      "are read from disk again; 0: chosen")
      .meta("GB")
      .at_least(0);
  add(s.adapter_mode, "adapter_mode",
      "who computes a cold adapter. cached: nobody, all are on the device for good; on_demand: a "
      "request waits for it; pipelined: each layer waits for its part; cpu_assist: CPU workers "
      "until "
      "all of it is there; planned: what the profile says is fastest, layer by layer")
      .choices(adapter_mode_names());
  add(s.max_lora_rank, "max_lora_rank", "largest rank accepted").range(1, 512);
  add(s.lora_sharding, "lora_sharding",
      "with tensor_parallel, x A of q, k, v, gate and up in decode steps. replicated: each device "
      "computes all of it; gathered: each a share of the ranks, then they tell each other; auto: "
      "what costs less, step by step; s-lora: gathered, and o and down as in S-LoRA's paper, to "
      "compare with")
      .choices(lora_sharding_names());
}

void add_handoff_settings(SettingsTable& table, EngineSettings& s, bool offered) {
  Adder add{table, "Adapters", offered};
  add(s.profile, "profile",
      "what `tandem profile` measured on this machine; default: built-in figures")
      .meta("FILE");
  add(s.learned_costs, "learned_costs",
      "folder that keeps what is learnt of this machine's costs; none: it is forgotten; default: "
      "~/.cache/tandem")
      .meta("DIR");
  add(s.calibrate, "calibrate",
      "measure this machine's costs at the start (2 s) where nothing has been learnt and no "
      "profile of certain figures is given");
  add(s.cpu_workers, "cpu_workers",
      "processes that compute cold adapters, a core each; -1: chosen, 0: none")
      .range(-1, 64);
  add(s.worker_cpus, "worker_cpus", "cores of these processes, as in 4-15; default: chosen")
      .meta("LIST");
  add(s.worker_spin_ms, "worker_spin_ms", "without work they spin for this long, then sleep")
      .meta("MS")
      .range(0, 60000);
  add(s.handoff_deadline_ms, "handoff_deadline_ms",
      "longest wait for them; then the rows are computed again on the device")
      .meta("MS")
      .range(1, 60000);
  add(s.handoff_tokens, "handoff_tokens", "tokens of one step that they may be given")
      .range(1, 8192);
}

void add_adapter_setting(SettingsTable& table, EngineSettings& s, bool offered) {
  Adder add{table, "Adapters", offered};
  add(s.adapter, "adapter", "one more adapter; may be repeated").meta("NAME=DIR");
}

void add_batching_settings(SettingsTable& table, EngineSettings& s, bool offered) {
  Adder add{table, "Batching", offered};
  add(s.max_model_len, "max_model_len", "longest prompt plus answer; 0: the model's context")
      .at_least(0);
  add(s.max_num_seqs, "max_num_seqs", "sequences that run at once").range(1, 65536);
  add(s.max_num_batched_tokens, "max_num_batched_tokens",
      "tokens of one step; longer prompts are computed in chunks")
      .range(1, 1048576);
  add(s.max_queue, "max_queue", "sequences that may wait; more are told 429").range(1, 10000000);
  add(s.queue_order, "queue_order",
      "who goes first. priority: the lowest `priority` of requests (0 where none is given), then "
      "as "
      "they came; arrival: as they came, priorities count for nothing")
      .choices({"priority", "arrival"});
  add(s.fair_tenants, "fair_tenants",
      "tenants take turns by the tokens they have had; a tenant is the header "
      "x-gateway-inference-fairness-id, else `user`, else the API key");
  add(s.early_abort, "early_abort",
      "requests with a first-token deadline that would miss it are told 429 before they begin");
  add(s.adapter_clusters, "adapter_clusters",
      "once so many adapters are in the batch, requests of others wait while there are some of "
      "these; 0: any number")
      .range(0, 65536);
  add(s.max_passed_over, "max_passed_over",
      "admissions of later requests that clusters or overload may put before one; then it is "
      "passed no more")
      .range(0, 1000000);
  add(s.pool_gb, "pool_gb",
      "memory that KV and adapters share, on each device; 0: what a GPU has left, or enough for "
      "the "
      "settings above")
      .meta("GB")
      .at_least(0);
  add(s.pool_pages, "pool_pages", "the same in pages; 0: from pool_gb").range(0, 1 << 30);
  add(s.page_tokens, "page_tokens", "tokens of one page").range(1, 1024);
  add(s.prefix_cache, "prefix_cache", "prompts that begin alike share what was computed of them");
  add(s.grammar_cache_mb, "grammar_cache_mb",
      "compiled constraints (JSON schemas, patterns, grammars) kept for the next request; 0: none")
      .meta("MB")
      .range(0, 1 << 20);
  add(s.overlap, "overlap", "prepare a step while the one before it runs");
  add(s.graphs, "graphs",
      "launch decode steps from recordings; layers: also short steps with prompts or loads, layer "
      "by layer, where they begin on an idle device; auto: on, on a GPU")
      .choices({"auto", "on", "layers", "off"});
  add(s.max_graph_batch, "max_graph_batch", "rows of the largest step that is recorded")
      .range(1, 1024);
  add(s.record_steps, "record_steps",
      "write every step with its tokens into this file; `tandem replay` runs them again")
      .meta("FILE");
}

void add_server_settings(SettingsTable& table, ServerSettings& s, bool offered) {
  Adder add{table, "Server", offered};
  add(s.host, "host", "address to listen on; 0.0.0.0: all of this machine's").meta("ADDR");
  add(s.port, "port", "port to listen on; 0: any free one, told in the log").range(0, 65535);
  add(s.api_key, "api_key",
      "clients must send it as bearer token; the variable keeps it out of process lists")
      .meta("KEY")
      .secret();
  add(s.metrics_without_key, "metrics_without_key",
      "with an api_key: /metrics is told to everybody, as /health and /ready are");
  add(s.adapter_root, "adapter_root",
      "/v1/load_lora_adapter may read below this folder; may be repeated; none: loading is off")
      .meta("DIR");
  add(s.cors_origins, "cors_origins",
      "pages of this origin (https://chat.example.org; *: all) may call from a browser; may be "
      "repeated")
      .meta("ORIGIN");
  add(s.request_log, "request_log", "a line in the log for each request that ended");
  add(s.max_connections, "max_connections", "connections at once; more are told 503")
      .range(1, 1000000);
  add(s.max_body_mb, "max_body_mb", "longest request body; longer ones are told 413")
      .meta("MB")
      .range(0.001, 1024);
  add(s.keep_alive_s, "keep_alive_s",
      "a connection without a request is closed after this; above the idle time of a load balancer "
      "in front")
      .meta("SECONDS")
      .range(1, 86400);
  add(s.trust_request_chat_template, "trust_request_chat_template",
      "requests may bring a chat_template of their own");
  add(s.tool_call_parser, "tool_call_parser",
      "how the model writes calls of tools in chat answers; auto: as its chat template shows")
      .choices({"auto", "llama3", "hermes", "mistral", "none"});
  add(s.generation_config, "generation_config",
      "defaults of sampling; auto: the checkpoint's generation_config.json; none: OpenAI's")
      .choices({"auto", "none"});
  add(s.slo_ttft_ms, "slo_ttft_ms",
      "first-token deadline of requests that give none by x-slo-ttft-ms; 0: none")
      .meta("MS")
      .range(0, 86400000);
  add(s.slo_tpot_ms, "slo_tpot_ms",
      "objective for the time between tokens where x-slo-tpot-ms gives none; 0: none")
      .meta("MS")
      .range(0, 86400000);
  add(s.max_answer_mb, "max_answer_mb",
      "memory that one answer may take; a request that might take more is told 400")
      .meta("MB")
      .range(1, 1048576);
  add(s.max_answers_mb, "max_answers_mb",
      "memory that all answers under way may take; beyond it requests are told 429")
      .meta("MB")
      .range(1, 1048576);
  add(s.drain_timeout_s, "drain_timeout_s",
      "after SIGTERM, wait this long for running requests to end")
      .meta("SECONDS")
      .range(0, 86400);
  add(s.registry, "registry",
      "a cluster's registry, sqlite:FILE or etcd://HOST:PORT,...: the server is entered there, and "
      "serves the adapters there whose folders are under an adapter_root")
      .meta("URL");
  add(s.advertise, "advertise",
      "how others reach this server, told in the registry; default: http://HOST:PORT")
      .meta("URL");
  add(s.adapter_store, "adapter_store",
      "adapters of the registry whose folders cannot be read here are fetched from other engines "
      "into this folder; none: they are not")
      .meta("DIR");
  add(s.adapter_store_gb, "adapter_store_gb",
      "what adapter_store may hold; those used least recently go")
      .meta("GB")
      .range(0.000001, 1e6);
  add(s.verify_base, "verify_base",
      "the base's identity, by which routers tell engines that can go on with each other's "
      "streams, "
      "is of every byte of its weights, not of a sample: reads all of them once more at the start");
}

}  // namespace

AdapterMode EngineSettings::mode() const {
  const std::optional<AdapterMode> mode = parse_adapter_mode(adapter_mode);
  TANDEM_CHECK(mode.has_value(), "adapter_mode {}", adapter_mode);
  return *mode;
}

LoraSharding EngineSettings::sharding() const {
  const std::optional<LoraSharding> sharding = parse_lora_sharding(lora_sharding);
  TANDEM_CHECK(sharding.has_value(), "lora_sharding {}", lora_sharding);
  return *sharding;
}

void add_device_settings(SettingsTable& table, EngineSettings& s) {
  table.group("Device");
  table.add(s.device, "device", "where to compute; auto: a GPU if one can be used, else the host")
      .choices({"auto", "cuda", "host"});
  table.add(s.gpu, "gpu", "which GPU, counted from 0").range(0, 1023);
  table
      .add(s.tensor_parallel, "tensor_parallel",
           "devices that share the model, each a part of every layer: GPUs, or host devices")
      .range(1, 8);
  table
      .add(s.gpus, "gpus",
           "which GPUs share it, as in 0,1, by their numbers; default: that of `gpu` and those "
           "that follow")
      .meta("LIST");
  table
      .add(s.collectives, "collectives",
           "what adds up GPUs' results: kernels of our own, which need GPUs that map each other's "
           "memory, or NCCL (libnccl.so.2); auto: our own where they can")
      .choices({"auto", "own", "nccl"});
  table.add(s.threads, "threads", "compute threads of the host device; 0: one per physical core")
      .range(0, 1024);
  table
      .add(s.cpus, "cpus",
           "cores that these threads are pinned to, as in 0-3,8; on a GPU, with worker_cpus: the "
           "engine's own; default: chosen")
      .meta("LIST");
  table.add(s.pin, "pin", "pin each compute thread to a core of its own");
  table.add(s.slow_cores, "slow_cores",
            "where a machine has several kinds of cores, slow ones work as well");
  table.add(s.claim_cores, "claim_cores",
            "leave cores alone that other engines of this machine have claimed, and claim ours");
  table
      .add(s.link_gbps, "link_gbps",
           "copy to a device at this many gigabytes per second, as over a slower link; 0: as fast "
           "as it goes")
      .at_least(0);
}

void add_engine_settings(SettingsTable& table, EngineSettings& engine, ServerSettings& server,
                         const OfferedSettings& offered) {
  add_model_settings(table, engine);
  add_adapter_settings(table, engine, offered.adapters);
  add_handoff_settings(table, engine, offered.handoff);
  add_adapter_setting(table, engine, offered.adapter);
  add_device_settings(table, engine);
  add_batching_settings(table, engine, offered.batching);
  add_server_settings(table, server, offered.server);
  add_log_settings(table, engine.log);
  add_trace_settings(table, server.tracing, offered.server);
}

void add_serve_settings(SettingsTable& table, EngineSettings& engine, ServerSettings& server) {
  add_engine_settings(
      table, engine, server,
      {.adapters = true, .handoff = true, .adapter = true, .batching = true, .server = true});
}

Result<std::vector<NamedAdapter>> list_adapters(const std::string& folder,
                                                const std::vector<std::string>& named) {
  std::vector<NamedAdapter> found;
  if (!folder.empty()) {
    std::error_code failure;
    fs::directory_iterator entries(folder, failure);
    if (failure) return error(StatusCode::not_found, "adapters: {}: {}", folder, failure.message());
    for (; entries != fs::directory_iterator(); entries.increment(failure)) {
      std::error_code ignored;
      if (fs::exists(entries->path() / "adapter_config.json", ignored)) {
        TANDEM_ASSIGN(std::string path, real_path(entries->path()));
        found.push_back({entries->path().filename().string(), std::move(path), true});
      }
      if (failure) break;
    }
    if (failure) return error(StatusCode::internal, "adapters: {}: {}", folder, failure.message());
    if (found.empty()) {
      return error(StatusCode::not_found, "adapters: no subfolder of {} has an adapter_config.json",
                   folder);
    }
    // The file system's order is no order.
    std::sort(found.begin(), found.end(),
              [](const NamedAdapter& a, const NamedAdapter& b) { return a.name < b.name; });
  }
  for (const std::string& text : named) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals + 1 == text.size()) {
      return invalid("adapter: '{}' is not NAME=DIR", text);
    }
    std::string name = text.substr(0, equals);
    TANDEM_TRY(check_name(name, found));
    TANDEM_ASSIGN(std::string path, real_path(text.substr(equals + 1)));
    found.push_back({std::move(name), std::move(path)});
  }
  return found;
}

}  // namespace tandem
