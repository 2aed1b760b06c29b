// tandem serve: the REST server over an engine in this process.
//
// Threads: main waits for signals; the server's and the engine's threads are theirs.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <memory>

#include "base/log.h"
#include "engine/server/server.h"
#include "engine/server/tool_calls/tool_format.h"
#include "tools/cli/flags.h"
#include "tools/cli/machine.h"
#include "tools/cli/settings.h"
#include "tools/cli/signals.h"
#include "tools/serve/serve.h"
#include "tools/setup/engine_setup.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "serve", "--model DIR [--adapters DIR] [flags]",
    "Serves one base model and its LoRA adapters over REST, in OpenAI's shapes. SIGTERM or Ctrl-C\n"
    "drains: running requests finish, new ones are told 503. A second signal ends it at once.",
    "  tandem serve --model tests/data/demo-llama --adapters tests/data/demo-llama/adapters\n"
    "  tandem serve --config configs/demo.toml --port 9000"};

ServerOptions server_options(const ServerSettings& settings) {
  ServerOptions options;
  options.host = settings.host;
  options.port = static_cast<int>(settings.port);
  options.api_key = settings.api_key;
  for (const std::string& root : settings.adapter_root) options.adapter_roots.emplace_back(root);
  options.cors_origins = settings.cors_origins;
  options.request_log = settings.request_log;
  options.max_body_bytes = static_cast<std::size_t>(settings.max_body_mb * 1024 * 1024);
  options.max_answer_bytes = static_cast<std::uint64_t>(settings.max_answer_mb * 1024 * 1024);
  options.max_answers_bytes = static_cast<std::uint64_t>(settings.max_answers_mb * 1024 * 1024);
  options.max_connections = static_cast<int>(settings.max_connections);
  options.trust_request_chat_template = settings.trust_request_chat_template;
  return options;
}

// A shell's usual limit of 1024 files is below the default of max_connections, and a server without
// a descriptor left can accept nobody, not even to say 503.
void make_room_for_connections(std::int64_t max_connections) {
  constexpr std::int64_t kOtherFiles = 128;  // refusals, adapters being loaded, the log
  const auto wanted = static_cast<std::size_t>(max_connections + kOtherFiles);
  if (const std::size_t allowed = allow_open_files(wanted); allowed < wanted) {
    log::warning("{} open files are allowed, too few for max_connections {}; raise ulimit -n to {}",
                 allowed, max_connections, wanted);
  }
}

std::string url(const ServerSettings& settings, int port) {
  const bool v6 = settings.host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", settings.host, v6 ? "]" : "", port);
}

ToolFormat choose_tool_format(const std::string& setting, const EngineSetup& setup) {
  if (const auto format = tool_format(setting)) return *format;
  const std::string_view chat_template =
      setup.chat_template == nullptr ? std::string_view() : setup.chat_template->source();
  const ToolFormat found = detect_tool_format(chat_template, [&](std::string_view token) {
    return setup.tokenizer->token_to_id(token).has_value();
  });
  if (found == ToolFormat::none) {
    log::info("the chat template shows no known format of tool calls: they stay text");
  } else {
    log::info("calls of tools are read as {} writes them", name_of(found));
  }
  return found;
}

Status serve(const EngineSettings& engine_settings, const ServerSettings& server_settings) {
  TANDEM_ASSIGN(const auto signals, StopSignals::create());
  TANDEM_ASSIGN(const auto adapters,
                list_adapters(engine_settings.adapters, engine_settings.adapter));
  std::unique_ptr<EngineSetup> setup;  // outlives the server, which points into it
  TANDEM_ASSIGN(const auto server, Server::create(server_options(server_settings)));
  make_room_for_connections(server_settings.max_connections);
  TANDEM_TRY(server->start());
  const std::string address = url(server_settings, server->port());
  log::info("listening on {}; loading, /ready says when it is done", address);

  TANDEM_ASSIGN(setup, set_up_engine(engine_settings, adapters, LoadReport::progress,
                                     server_settings.adapter_root));
  ServedModel model;
  model.name = setup->model_name;
  model.root = engine_settings.model;
  model.max_model_len = setup->engine->options().max_model_len;
  model.max_loras = setup->engine->options().max_device_adapters;
  model.service = setup->engine.get();
  model.text = setup->text.get();
  model.tool_format = choose_tool_format(server_settings.tool_call_parser, *setup);
  signals->set_graceful(true);
  server->attach(model);
  log::info("ready: {} serves '{}' and {} adapters", address, model.name, adapters.size());

  const auto timeout = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(server_settings.drain_timeout_s));
  // Before anything that could wait, the log included.
  const auto bound_the_end = [&] { signals->exit_after(timeout + std::chrono::seconds(1)); };
  while (!signals->wait_for(std::chrono::milliseconds(100))) {
    if (const Status failure = setup->engine->failure(); !failure) {
      bound_the_end();
      server->drain_and_stop(std::chrono::seconds(1));  // the answers that say so
      return failure.with_context("the engine has ended");
    }
  }
  bound_the_end();
  log::info("signal {}: draining for at most {} s; a second signal ends it at once",
            signals->signal_number(), server_settings.drain_timeout_s);
  if (server->drain_and_stop(timeout)) {
    log::info("drained, stopped");
  } else {
    log::warning("stopped with requests unfinished: drain_timeout_s passed");
  }
  return {};
}

}  // namespace

int run_serve(const std::vector<std::string>& args) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the log that goes away takes nobody along
  EngineSettings engine;
  ServerSettings server;
  SettingsTable table;
  add_serve_settings(table, engine, server);
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  if (const auto level = log::parse_level(engine.log_level)) log::set_level(*level);
  const Status status = serve(engine, server);
  return status ? kExitOk : report_failure(kInfo, status);
}

}  // namespace tandem
