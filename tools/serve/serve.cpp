// tandem serve: the REST server over an engine in this process.
//
// Threads: main waits for signals; the server and the engine have threads of their own.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "base/memory/memory_reserve.h"
#include "engine/loader/base_identity.h"
#include "engine/peers/local_store.h"
#include "engine/registry/registry_adapters.h"
#include "engine/server/cluster/stats_feed.h"
#include "engine/server/server.h"
#include "engine/server/tool_calls/tool_format.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/serving.h"
#include "tools/cli/signals.h"
#include "tools/cli/version.h"
#include "tools/serve/serve.h"
#include "tools/settings/engine_settings.h"
#include "tools/setup/checkpoint_defaults.h"
#include "tools/setup/engine_setup.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "serve", "--model DIR [--adapters DIR] [flags]",
    "Serves one base model and its LoRA adapters over REST, in OpenAI's shapes. SIGTERM or Ctrl-C\n"
    "drains: running requests finish, new ones get 503. A second signal ends it at once. SIGHUP\n"
    "drains as well, and ends it with status 129: a supervisor starts it with its new settings.",
    "  tandem serve --model tests/data/demo-llama --adapters tests/data/demo-llama/adapters\n"
    "  tandem serve --config configs/demo.toml --port 9000"};

// Size of one half of the memory reserve. Each half holds what is needed to release the largest
// bodies (max_body_mb).
constexpr std::size_t kReserveBytes = std::size_t{32} << 20;

// Number of answers of the largest size that fit in max_answers_mb, so that one client cannot keep
// all others out.
constexpr std::uint64_t kAnswersAtOnce = 8;

ServerOptions server_options(const ServerSettings& settings, bool early_abort) {
  ServerOptions options = settings.options;
  options.adapter_roots.assign(settings.adapter_root.begin(), settings.adapter_root.end());
  options.max_answer_bytes = options.max_answers_bytes / kAnswersAtOnce;
  options.early_abort = early_abort;
  return options;
}

ToolFormat tool_format_of(const std::string& templates, const Tokenizer& tokenizer) {
  return detect_tool_format(
      templates, [&](std::string_view token) { return tokenizer.token_to_id(token).has_value(); });
}

ToolFormat choose_tool_format(const std::string& setting, const EngineSetup& setup) {
  if (const auto format = tool_format(setting)) return *format;
  const std::string templates =
      setup.chat_templates == nullptr ? std::string() : setup.chat_templates->sources();
  const ToolFormat found = tool_format_of(templates, *setup.tokenizer);
  if (found == ToolFormat::none) {
    log::info("the chat template has no known format of tool calls; they stay text");
  } else {
    log::info("tool calls are read in the format of {}", name_of(found));
  }
  return found;
}

// Checked before the model is loaded, because loading takes minutes.
Status check_registry(const ServerSettings& settings) {
  if (settings.registry.empty()) return {};
  const bool is_any = settings.options.host == "0.0.0.0" || settings.options.host == "::";
  if (is_any && settings.advertise.empty()) {
    return invalid(
        "advertise: host {} is every address of this machine; tell the registry how "
        "others reach it, as in --advertise http://10.0.0.7:{}",
        settings.options.host, settings.options.port);
  }
  return open_registry(settings.registry).status();
}

Result<std::unique_ptr<LocalStore>> open_store(const ServerSettings& settings) {
  if (settings.adapter_store.empty()) return std::unique_ptr<LocalStore>();
  if (settings.registry.empty()) {
    return invalid(
        "adapter_store: it is for a registry's adapters, and there is no registry; add --registry "
        "URL");
  }
  Result<std::unique_ptr<LocalStore>> store =
      LocalStore::open(settings.adapter_store, settings.adapter_store_bytes);
  if (!store) return store.status().with_context("adapter_store");
  return store;
}

Result<std::unique_ptr<RegistryAdapters>> join_registry(const ServerSettings& settings,
                                                        const std::string& address,
                                                        const std::string& engine_id,
                                                        std::unique_ptr<LocalStore> store,
                                                        EngineSetup& setup) {
  const EngineOptions& options = setup.engine->options();
  EngineEntry entry;
  entry.id = engine_id;
  entry.address = settings.advertise.empty() ? address : settings.advertise;
  entry.model = setup.model_name;
  entry.capacity.max_requests = options.max_num_seqs;
  const PoolShape& pool = setup.engine->pool_shape();
  entry.capacity.kv_tokens = pool.tokens_in(pool.num_pages);
  entry.capacity.adapter_bytes = static_cast<std::int64_t>(options.host_tier_bytes);
  RegistryAdaptersOptions adapters;
  adapters.dtype = setup.dtype;
  adapters.roots = settings.adapter_root;
  adapters.store = std::move(store);
  adapters.peers.api_key = settings.options.api_key;
  return RegistryAdapters::join(settings.registry, entry, *setup.engine, std::move(adapters));
}

OnDemandAdapter on_demand(const AdapterEntry& entry) {
  return {entry.name, entry.source, entry.created_unix};
}

// Saves the costs that the engine has learned, now and then and at the end.
class CostKeeper {
 public:
  explicit CostKeeper(EngineSetup& setup) : setup_(setup), next_(setup.clock.now() + kEvery) {}

  void look() {
    if (setup_.clock.now() >= next_) keep();
  }
  void keep() {
    next_ = setup_.clock.now() + kEvery;
    if (setup_.kept_costs == nullptr) return;
    try {
      if (const auto lessons = setup_.engine->lessons()) setup_.kept_costs->keep(*lessons);
    } catch (const std::bad_alloc&) {  // nothing is lost: the next call tries again
    }
  }

 private:
  static constexpr std::chrono::minutes kEvery{5};

  EngineSetup& setup_;
  TimePoint next_;
};

// Takes the engine out of the registry. Routers learn it from the engine's statistics; this keeps
// new ones from finding the engine. Fetches end, because requests that wait for an adapter would
// exceed the time to drain.
void leave(RegistryAdapters& registry) {
  registry.set_serving(false);
  registry.end_fetches();
}

// Call it after the weights were loaded: their files are in the page cache then.
Result<std::string> identify_base(const EngineSettings& engine, const ServerSettings& server,
                                  const EngineSetup& setup) {
  const std::string chat_template =
      setup.chat_templates == nullptr ? std::string() : setup.chat_templates->sources();
  if (engine.load_format == "dummy") {
    const std::string also = engine.weights == "bf16" ? "" : engine.weights;
    return dummy_base_identity(engine.model, static_cast<std::uint64_t>(engine.seed),
                               also + chat_template);
  }
  const auto begin = std::chrono::steady_clock::now();
  Result<std::string> identity = base_identity(
      engine.model, server.verify_base ? BaseReading::whole : BaseReading::sample, chat_template);
  if (!identity) return identity.status().with_context("the base's identity");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  log::info("the base model's identity is {}, computed from {} in {:.2f} s", *identity,
            server.verify_base ? "all of its weights" : "a sample of its weights", took.count());
  return identity;
}

// Returns the exit status.
Result<int> serve(const EngineSettings& engine_settings, const ServerSettings& server_settings) {
  keep_memory_reserve(kReserveBytes);
  TANDEM_ASSIGN(const auto signals, StopSignals::create());
  TANDEM_ASSIGN(const auto adapters,
                list_adapters(engine_settings.adapters, engine_settings.adapter));
  TANDEM_TRY(check_registry(server_settings));
  TANDEM_ASSIGN(auto store, open_store(server_settings));  // null: no store
  const std::string engine_id = new_engine_id();
  // Created before the engine, whose events use its clock; outlives the server and engine. Null:
  // off.
  TANDEM_ASSIGN(const auto tracing,
                start_tracing(server_settings.tracing, "tandem serve", engine_id));
  std::unique_ptr<EngineSetup> setup;          // outlives the server, which points into it
  std::unique_ptr<RegistryAdapters> registry;  // outlives the server, too; null: no registry
  TANDEM_ASSIGN(const auto server, Server::create(server_options(
                                       server_settings, engine_settings.options.line.early_abort)));
  make_room_for_connections(server_settings.options.max_connections, 1);
  warn_of_open_host(server_settings.options.host, server_settings.options.api_key);
  TANDEM_TRY(server->start());
  const std::string address = listening_url(server_settings.options.host, server->port());
  log::info("listening on {}; loading, /ready says when it is done", address);

  TANDEM_ASSIGN(setup, set_up_engine(engine_settings, adapters, LoadReport::progress,
                                     FirstCosts::kept, server_settings.adapter_root));
  ServedModel model;
  model.name = setup->model_name;
  model.root = engine_settings.model;
  model.max_model_len = setup->engine->options().max_model_len;
  model.hidden_size = setup->spec.hidden_size;
  model.labels = setup->spec.labels;
  model.max_loras = setup->engine->options().max_device_adapters;
  model.service = setup->engine.get();
  model.text = setup->text.get();
  if (server_settings.generation_config == "auto") {
    model.sampling = read_sampling_defaults(engine_settings.model);
  }
  model.tool_format = choose_tool_format(server_settings.tool_call_parser, *setup);
  if (!tool_format(server_settings.tool_call_parser)) {
    model.detect_tool_format = [&setup](const std::string& templates) {
      return tool_format_of(templates, *setup->tokenizer);
    };
  }
  model.adapters_have_templates = engine_settings.chat_template.empty();
  model.engine_id = engine_id;
  model.refused_adapters = setup->refused_adapters;
  TANDEM_ASSIGN(model.base_identity, identify_base(engine_settings, server_settings, *setup));
  model.adapter_digest = [engine = setup->engine.get()](const std::string& name,
                                                        std::span<const AdapterPart> parts) {
    AdapterStore& store = engine->adapter_store();
    AdapterLease adapter;
    if (parts.empty()) {
      adapter = store.find(name);
    } else if (Result<AdapterLease> sum = store.find_sum(parts)) {
      adapter = *std::move(sum);
    }
    return adapter == nullptr
               ? nullptr
               : std::shared_ptr<const std::string>(adapter, &adapter->contents().digest);
  };
  if (!server_settings.registry.empty()) {
    TANDEM_ASSIGN(registry, join_registry(server_settings, address, model.engine_id,
                                          std::move(store), *setup));
    model.fetch_adapter = [&registry](const std::string& name) { return registry->fetch(name); };
    model.on_demand_adapters = [&registry] {
      std::vector<OnDemandAdapter> adapters;
      for (const AdapterEntry& entry : registry->listed()) adapters.push_back(on_demand(entry));
      return adapters;
    };
    model.find_on_demand = [&registry](const std::string& name) {
      const auto entry = registry->find(name);
      return entry ? std::optional(on_demand(*entry)) : std::nullopt;
    };
  }
  model.version = version_number();
  signals->set_graceful(true);
  server->attach(model);
  log::info("ready: {} serves '{}' and {} adapters", address, model.name,
            adapters.size() - model.refused_adapters.size());

  CostKeeper keeper(*setup);
  while (!signals->wait_for(std::chrono::milliseconds(100))) {
    keeper.look();
    if (registry != nullptr) {
      registry->set_serving(setup->engine->ready());
      registry->look_again();
    }
    if (const Status failure = setup->engine->failure(); !failure) {
      bound_the_end(*signals, server_settings.drain_timeout_s);
      if (registry != nullptr) leave(*registry);
      server->drain_and_stop(std::chrono::seconds(1));  // time to send the error answers
      return failure.with_context("the engine has ended");
    }
  }
  const int status =
      drain_after_signal(*signals, server_settings.drain_timeout_s, [&](Duration timeout) {
        if (registry != nullptr) leave(*registry);
        return server->drain_and_stop(timeout);
      });
  keeper.keep();
  return status;
}

}  // namespace

int run_serve(const std::vector<std::string>& args) {
  std::signal(SIGPIPE, SIG_IGN);  // a log reader that goes away must not end this process
  EngineSettings engine;
  ServerSettings server;
  SettingsTable table;
  add_serve_settings(table, engine, server);
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  set_up_log(engine.log);
  const Result<int> status = serve(engine, server);
  return status ? *status : report_serving_failure(kInfo, status.status());
}

}  // namespace tandem
