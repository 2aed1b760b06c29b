// What a REST server is told: how it serves, and what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/server/admission/queue_headers.h"
#include "engine/server/messages/text_codec.h"
#include "engine/server/tool_calls/tool_format.h"
#include "engine/service/service.h"

namespace tandem {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: any free one; Server::port() tells which
  // Empty: everybody may ask. Else every call needs it but /health, /ready and the dashboard's
  // page.
  std::string api_key;
  bool metrics_without_key = false;  // nor does /metrics
  // Where load_lora_adapter may read from. Empty: loading and unloading over REST are off.
  std::vector<std::filesystem::path> adapter_roots;
  std::size_t max_body_bytes = 8U << 20;  // longer request bodies are a 413
  int max_connections = 1024;             // more are told 503 and closed
  // An idle kept-alive connection is closed after this; a client that sends or reads nothing for
  // this long while the server waits for it is given up, and its request is cancelled.
  Duration keep_alive = std::chrono::seconds(75);
  Duration client_timeout = std::chrono::seconds(60);
  // A stream that has said nothing for so long sends a chunk that says nothing.
  Duration silence = std::chrono::seconds(15);
  std::int32_t max_sequences_per_request = 256;  // prompts x n of one call
  // Origins whose pages may call from a browser; "*": all. None: browsers are told nothing.
  std::vector<std::string> cors_origins;
  bool request_log = true;                   // a line in the log for each request that ended
  bool trust_request_chat_template = false;  // requests may bring a chat template of their own
  Objectives objectives;                     // of requests that give none
  bool early_abort = true;  // the engine gives up what would miss its first-token deadline
  // What one answer, and all of them at once, may take in memory (answer_price.h): a call that
  // might take more is a 400, one for which too little is left a 429.
  std::uint64_t max_answer_bytes = 128U << 20;
  std::uint64_t max_answers_bytes = 1U << 30;
};

// An adapter that was to be served from the start and could not be.
struct RefusedAdapter {
  std::string name;
  std::string path;
  std::string why;
};

// An adapter that is served once a request asks for it.
struct OnDemandAdapter {
  std::string name;
  std::string root;               // the folder that it is from
  std::int64_t created_unix = 0;  // seconds since the epoch
};

// What is served; pointers outlive the server.
struct ServedModel {
  std::string name;  // what requests call the base model
  std::string root;  // where its files are, told by /v1/models
  std::int32_t max_model_len = 0;
  std::int32_t max_loras =
      0;  // adapters that fit the device at once, told by the metrics; 0: unset
  GenerationService* service = nullptr;
  const TextCodec* text = nullptr;
  ToolFormat tool_format = ToolFormat::none;  // how it writes calls of tools
  // Makes an adapter servable that `service` lacks; not_found: there is none of this name. Called
  // from any of the calls' threads, and may take as long as reading it takes. Null: there are none.
  std::function<Status(const std::string& name)> fetch_adapter = nullptr;
  // The adapters that fetch_adapter can bring in, by name; null: none are known. `find`: the one of
  // this name, a version of it ("NAME@2") included. Thread-safe.
  std::function<std::vector<OnDemandAdapter>()> on_demand_adapters = nullptr;
  std::function<std::optional<OnDemandAdapter>(const std::string& name)> find_on_demand = nullptr;
  // Chats with an adapter that brings a chat template of its own are rendered by that.
  bool adapters_have_templates = true;
  // The format that such templates ask for; null: `tool_format`, whatever they print.
  std::function<ToolFormat(const std::string& templates)> detect_tool_format = nullptr;
  std::string version = {};    // of the program, told by /v1/stats
  std::string engine_id = {};  // told by /v1/stats, and the registry's; empty: a new one
  // Told by /v1/adapters and /metrics, until an adapter of the name is loaded after all.
  std::vector<RefusedAdapter> refused_adapters = {};
  std::string base_identity = {};  // told by /v1/stats and to routers; empty: not known
  // The digest of the adapter that a request for this name gets now; its owner is that content, and
  // another one after it was replaced. Null: there is none. Thread-safe. Not set: not known.
  std::function<std::shared_ptr<const std::string>(const std::string& name)> adapter_digest =
      nullptr;
  SamplingParams sampling = {};  // of requests, where they say nothing
};

}  // namespace tandem
