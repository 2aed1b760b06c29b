#include "tools/settings/engine_settings.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file/folder.h"

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

// Resolves links, because a path that REST reports can be sent back to it, and there a relative
// path is one below an adapter_root. A link counts as its target at the start; later reads of the
// folder follow no links.
Result<std::string> real_path(const fs::path& path) {
  const Result<fs::path> real = resolve_links(path);
  if (!real) return real.status().with_context("adapter");
  return real->string();
}

// Adds rows under one heading; either all of them are flags or none is.
struct Adder {
  SettingsTable& table;
  const char* group;
  bool offered;

  SettingsField& operator()(SettingsMember member, const char* key, const char* help) {
    table.group(group);
    SettingsField& field = table.add(std::move(member), key, help);
    if (!offered) field.in_file_only();
    return field;
  }
};

void add_model_settings(SettingsTable& table, EngineSettings& s) {
  table.group("Model");
  const bool has_default = s.model == "auto";  // true for commands that measure
  table
      .add(s.model, "model",
           has_default
               ? "checkpoint folder or a shape, such as llama-2-7b; auto: that on a GPU, "
                 "llama-3.2-1b on the host"
               : "checkpoint folder (config.json, tokenizer.json, *.safetensors), or a GGUF file")
      .meta("DIR")
      .required();
  table.add(s.served_model_name, "served_model_name",
            "name of the base model in requests; default: the name of the folder or file");
  table
      .add(s.dtype, "dtype",
           "type to compute in; auto: the checkpoint's own, but bf16 for f32 checkpoints on a GPU")
      .choices({"auto", "bf16", "f16", "f32", "bfloat16", "float16", "half", "float32", "float"});
  table
      .add(s.load_format, "load_format",
           "dummy: random weights in the shape of config.json; no weight files are read")
      .choices({"auto", "dummy"});
  table
      .add(s.weights, "weights",
           "format of dummy weights. bf16: not quantised; w8, w4: 8 and 4 bits in groups of 128")
      .choices({"bf16", "fp8", "w8", "w4", "nf4"});
  table
      .add(s.chat_template, "chat_template",
           "Jinja template for all chats; it replaces the checkpoint's and the adapters' own")
      .meta("FILE");
  table
      .add(s.special_tokens_in_content, "special_tokens_in_content",
           "how special tokens written in a chat's messages, tools and documents are read. tokens: "
           "as special tokens; text: as plain text, so that no message can end its turn or begin "
           "another")
      .choices({"tokens", "text"});
  table.add(s.seed, "seed", "seed of dummy weights and, in generate, of sampling").at_least(0);
}

void add_adapter_settings(SettingsTable& table, EngineSettings& s, bool offered) {
  Adder add{table, "Adapters", offered};
  add(s.adapters, "adapters",
      "folder of adapters: each subfolder with an adapter_config.json is one, named after the "
      "subfolder")
      .meta("DIR");
  add(s.strict_adapters, "strict_adapters",
      "refuse to start if an adapter of that folder cannot be used; otherwise it is skipped, and "
      "/v1/adapters says why");
  add(s.follow_links_outside, "follow_links_outside",
      "allow links that lead out of an adapter's folder, as in Hugging Face's cache");
  add(s.options.max_adapters, "max_adapters", "adapters loaded at once, on the device or elsewhere")
      .range(0, 1000000);
  add(s.options.max_device_adapters, "max_device_adapters",
      "adapters on the device at once; the room in the page pool may limit them further")
      .range(0, 65536);
  add(s.host_tier_gb, "host_tier_gb",
      "shared memory for adapter weights, divided among the NUMA nodes with CPU workers; an "
      "adapter that does not fit is read from disk when it is needed; 0: chosen")
      .meta("GB")
      .at_least(0);
  add(by_name(s.options.adapter_mode, kAdapterModes), "adapter_mode",
      "how a request starts whose adapter is not on the device. cached: all adapters stay on the "
      "device; on_demand: the request waits for the whole adapter; pipelined: each layer waits for "
      "its part; cpu_assist: CPU workers compute the adapter until it is loaded; planned: the "
      "fastest way for each layer, by the costs of this machine");
  add(s.options.max_lora_rank, "max_lora_rank", "largest rank of an adapter").range(1, 2048);
  add(s.options.max_added_tokens, "max_added_tokens",
      "tokens that an adapter may have beyond the base's vocabulary")
      .range(0, 1 << 18);
  add(by_name(s.options.lora_sharding, kLoraShardings), "lora_sharding",
      "how devices share the adapters' A of q, k, v, gate and up in decode steps with "
      "tensor_parallel. replicated: each computes all of it; gathered: each computes a share of "
      "the ranks and sends it to the others; auto: whichever costs less in each step; s-lora: as "
      "gathered, with o and down as in S-LoRA's paper, for comparison")
      .expert();
}

void add_handoff_settings(SettingsTable& table, EngineSettings& s, bool offered) {
  Adder add{table, "Adapters", offered};
  add(s.profile, "profile",
      "file of costs that `tandem profile` measured on this machine; default: built-in costs")
      .meta("FILE");
  add(s.learned_costs, "learned_costs",
      "folder that keeps the measured costs of this machine from run to run; none: they are not "
      "kept; default: ~/.cache/tandem")
      .meta("DIR");
  add(s.calibrate, "calibrate",
      "measure this machine's costs at the start (2 s), unless a profile or an earlier run tells "
      "them");
  add(s.cpu_workers, "cpu_workers",
      "processes that compute adapters while they load, one core each; -1: chosen; 0: none")
      .range(-1, 64);
  add(s.worker_cpus, "worker_cpus", "cores of the CPU workers, as in 4-15; default: chosen")
      .meta("LIST");
  add(s.options.handoff.spin_ms, "worker_spin_ms",
      "an idle CPU worker spins for this long, then sleeps")
      .meta("MS")
      .range(0, 60000);
  add(in_units("MS", s.options.handoff.deadline_us, 1e3, 1), "handoff_deadline_ms",
      "longest wait for CPU workers in a step; after it the device computes their rows again")
      .range(1, 60000);
  add(s.options.handoff.max_rows, "handoff_tokens",
      "tokens of one step that CPU workers may be given")
      .range(1, 8192)
      .expert();
}

void add_adapter_setting(SettingsTable& table, EngineSettings& s, bool offered) {
  Adder add{table, "Adapters", offered};
  add(s.adapter, "adapter", "an adapter's name and folder; may be repeated").meta("NAME=DIR");
}

void add_batching_settings(SettingsTable& table, EngineSettings& s, bool offered) {
  Adder add{table, "Batching", offered};
  add(s.max_model_len, "max_model_len",
      "longest prompt plus answer, in tokens; 0: the model's context length")
      .at_least(0);
  add(s.options.max_num_seqs, "max_num_seqs", "sequences that run at once").range(1, 65536);
  add(s.options.max_num_batched_tokens, "max_num_batched_tokens",
      "most tokens of one step; longer prompts are computed in chunks")
      .range(1, 1048576);
  add(s.options.max_queue, "max_queue", "sequences that may wait; further requests get 429")
      .range(1, 10000000);
  add(s.queue_order, "queue_order",
      "which waiting request starts first. priority: the one with the lowest `priority` (0 if it "
      "has none), then the oldest; arrival: the oldest, priorities do not count")
      .choices({"priority", "arrival"});
  add(s.options.line.fair, "fair_tenants",
      "tenants take turns, by the tokens they have had. A tenant is the header "
      "x-gateway-inference-fairness-id, otherwise the field `user`, otherwise the API key");
  add(s.options.line.early_abort, "early_abort",
      "answer 429 at once to a request that would miss its first-token deadline");
  add(s.options.line.adapter_clusters, "adapter_clusters",
      "once the batch has this many adapters, requests for other adapters wait while requests for "
      "these are queued; 0: no limit")
      .range(0, 65536);
  add(s.options.line.max_passed_over, "max_passed_over",
      "most later requests that may start before a waiting one, because of adapter_clusters or "
      "overload")
      .range(0, 1000000);
  add(s.pool_gb, "pool_gb",
      "memory for the KV cache and adapters, on each device; 0: most of what is free on a GPU, on "
      "the host what the settings above need")
      .meta("GB")
      .at_least(0);
  table.retire("pool_pages", "use pool_gb");
  table.retire("page_tokens", "leave it out: a page always holds 16 tokens");
  add(s.options.prefix_cache, "prefix_cache",
      "prompts that begin alike share their part of the KV cache");
  add(in_mb<std::int64_t>(s.options.grammar_cache_bytes), "grammar_cache_mb",
      "memory for compiled constraints (JSON schemas, patterns, grammars), which later requests "
      "use again; 0: none")
      .range(0, 1 << 20);
  add(s.options.overlap, "overlap", "prepare a step while the one before it runs").expert();
  add(s.graphs, "graphs",
      "record decode steps once and launch them from the recordings; auto: on for a GPU, off for "
      "the host")
      .choices({"auto", "on", "off"});
  add(s.max_graph_batch, "max_graph_batch", "rows of the largest step that is recorded")
      .range(1, 1024)
      .expert();
  add(s.record_steps, "record_steps",
      "file that every step and its tokens are written to; `tandem replay` runs them again")
      .meta("FILE");
}

void add_server_settings(SettingsTable& table, ServerSettings& s, bool offered) {
  Adder add{table, "Server", offered};
  ServerOptions& o = s.options;
  add(o.host, "host", "address to listen on; 0.0.0.0: all addresses of this machine").meta("ADDR");
  add(o.port, "port", "port to listen on; 0: a free one, which the log names").range(0, 65535);
  add(o.api_key, "api_key",
      "key that clients must send as a bearer token; process lists show the flag but not the "
      "variable")
      .meta("KEY")
      .secret();
  add(o.metrics_without_key, "metrics_without_key",
      "/metrics needs no key, like /health and /ready");
  add(s.adapter_root, "adapter_root",
      "folder below which /v1/load_lora_adapter may read; may be repeated; default: loading is off")
      .meta("DIR");
  add(o.cors_origins, "cors_origins",
      "origin of web pages that may call the server from a browser, as in "
      "https://chat.example.org; *: all; may be repeated")
      .meta("ORIGIN");
  add(o.request_log, "request_log", "log a line for each request that has ended");
  add(o.max_connections, "max_connections", "connections at once; further ones get 503")
      .range(1, 1000000);
  add(in_mb(o.max_body_bytes), "max_body_mb", "longest request body; longer ones get 413")
      .range(0.001, 1024);
  add(o.keep_alive, "keep_alive_s",
      "a connection without a request is closed after this time; set it longer than the idle "
      "timeout of a load balancer in front")
      .range(1, 86400);
  add(o.trust_request_chat_template, "trust_request_chat_template",
      "requests may bring their own chat_template");
  add(s.tool_call_parser, "tool_call_parser",
      "format of the model's tool calls in chat answers; auto: found in the chat template")
      .choices({"auto", "llama3", "hermes", "mistral", "none"});
  add(s.generation_config, "generation_config",
      "defaults of sampling. auto: those of the checkpoint's generation_config.json; none: "
      "OpenAI's")
      .choices({"auto", "none"});
  add(in_ms(o.objectives.ttft_s), "slo_ttft_ms",
      "first-token deadline of requests without the header x-slo-ttft-ms; 0: none")
      .range(0, 86400000);
  add(in_ms(o.objectives.tpot_s), "slo_tpot_ms",
      "objective for the time between tokens of requests without the header x-slo-tpot-ms; 0: none")
      .range(0, 86400000);
  table.retire("max_answer_mb", "use max_answers_mb, of which one answer may take an eighth");
  add(in_mb(o.max_answers_bytes), "max_answers_mb",
      "memory that all running answers may take; further requests get 429. One answer may take an "
      "eighth of it; a request that may need more gets 400")
      .range(1, 1048576);
  add(s.drain_timeout_s, "drain_timeout_s", "after SIGTERM, running requests have this long to end")
      .meta("SECONDS")
      .range(0, 86400);
  add(s.registry, "registry",
      "registry of a cluster, sqlite:FILE or etcd://HOST:PORT,...: the server registers itself "
      "there and serves those of its adapters whose folders are below an adapter_root")
      .meta("URL");
  add(s.advertise, "advertise",
      "address of this server in the registry, for others to reach it; default: http://HOST:PORT")
      .meta("URL");
  add(s.adapter_store, "adapter_store",
      "folder for adapters of the registry that cannot be read on this machine: they are fetched "
      "from other engines; default: they are not")
      .meta("DIR");
  add(in_gb(s.adapter_store_bytes), "adapter_store_gb",
      "size limit of adapter_store; the least recently used adapters are removed")
      .range(0.000001, 1e6);
  add(s.verify_base, "verify_base",
      "identify the base model by every byte of its weights, not by a sample; routers continue a "
      "stream only on an engine with the same identity. All weights are read once more at the "
      "start");
}

}  // namespace

void add_device_settings(SettingsTable& table, EngineSettings& s) {
  table.group("Device");
  table
      .add(s.device, "device",
           "where to compute; auto: a GPU if one can be used, otherwise the host")
      .choices({"auto", "cuda", "host"});
  table
      .add(s.tensor_parallel, "tensor_parallel",
           "devices that share the model; each holds a part of every layer")
      .range(1, 8);
  table
      .add(s.gpus, "gpus",
           "numbers of the GPUs, as in 2 or 0,1, one for each device of tensor_parallel; default: "
           "from 0 on")
      .meta("LIST")
      .old_flag("gpu");
  table
      .add(s.collectives, "collectives",
           "how GPUs add up their results. own: Tandem's kernels, for GPUs that can map each "
           "other's memory; nccl: the library libnccl.so.2; auto: own where it is possible")
      .choices({"auto", "own", "nccl"})
      .expert();
  table
      .add(s.threads, "threads",
           "compute threads of the host device; 0: one for each physical core")
      .range(0, 1024);
  table
      .add(s.cpus, "cpus",
           "cores for these threads, as in 0-3,8; on a GPU, together with worker_cpus: cores for "
           "the engine; default: chosen")
      .meta("LIST");
  table.retire("gpu", "use gpus, which takes one number, too");
  table.add(s.pin, "pin", "pin each compute thread to a core of its own");
  table.add(s.slow_cores, "slow_cores",
            "use slow cores as well, on a machine with several kinds of cores");
  table
      .add(s.claim_cores, "claim_cores",
           "claim the cores of this engine, and avoid those that other engines of this machine "
           "have claimed")
      .expert();
  table
      .add(s.link_gbps, "link_gbps",
           "limit copies to a device to this many gigabytes per second, as on a slower link; 0: no "
           "limit")
      .at_least(0)
      .expert();
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
    // Sorted by name, because the file system lists entries in no defined order.
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
