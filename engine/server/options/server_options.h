// The options of a REST server, and the model that it serves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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
  int port = 8000;  // 0: any free port; Server::port() returns it
  // Empty: no key is needed. Otherwise every call needs it except /health, /ready and the
  // dashboard's page.
  std::string api_key;
  bool metrics_without_key = false;  // exempts /metrics, too
  // The folders that load_lora_adapter may read from. Empty: loading and unloading over REST are
  // off.
  std::vector<std::filesystem::path> adapter_roots;
  std::size_t max_body_bytes = 8U << 20;  // longer request bodies get a 413
  int max_connections = 1024;             // connections above it get a 503 and are closed
  // An idle kept-alive connection is closed after `keep_alive`. A client that neither sends nor
  // reads for `client_timeout` while the server waits for it is disconnected, and its request is
  // cancelled.
  Duration keep_alive = std::chrono::seconds(75);
  Duration client_timeout = std::chrono::seconds(60);
  // A stream sends an empty chunk after this time without output.
  Duration silence = std::chrono::seconds(15);
  std::int32_t max_sequences_per_request = 256;  // limit on prompts x n of one call
  // Origins whose pages may call from a browser; "*": all. Empty: no CORS headers are sent.
  std::vector<std::string> cors_origins;
  bool request_log = true;                   // one log line per finished request
  bool trust_request_chat_template = false;  // requests may contain a chat template
  Objectives objectives;                     // defaults for requests without their own
  bool early_abort = true;                   // requests whose first token will be late are given up
  // Limits on the memory of one answer and of all of them (answer_price.h): a call that might
  // exceed the first is a 400, one that does not fit into the rest of the second a 429.
  std::uint64_t max_answer_bytes = 128U << 20;
  std::uint64_t max_answers_bytes = 1U << 30;
};

// An adapter that should have been served from the start and could not be loaded.
struct RefusedAdapter {
  std::string name;
  std::string path;
  std::string why;
};

// An adapter that is loaded when a request asks for it.
struct OnDemandAdapter {
  std::string name;
  std::string root;               // its folder
  std::int64_t created_unix = 0;  // seconds since the epoch
};

// The served model; the objects that it points to must outlive the server.
struct ServedModel {
  std::string name;  // the base model's name in requests
  std::string root;  // the folder of its files, shown by /v1/models
  std::int32_t max_model_len = 0;
  std::int32_t max_loras =
      0;  // number of adapters that fit on the device, for the metrics; 0: unset
  GenerationService* service = nullptr;
  const TextCodec* text = nullptr;
  ToolFormat tool_format = ToolFormat::none;  // the model's syntax of tool calls
  // Loads an adapter that `service` lacks; not_found: there is none of this name. May be called on
  // any of the calls' threads and blocks while the adapter is read. Null: adapters are not loaded
  // on demand.
  std::function<Status(const std::string& name)> fetch_adapter = nullptr;
  // The adapters that fetch_adapter can load, by name; null: unknown. `find` returns the one of
  // this name, also for a version of it ("NAME@2"). Thread-safe.
  std::function<std::vector<OnDemandAdapter>()> on_demand_adapters = nullptr;
  std::function<std::optional<OnDemandAdapter>(const std::string& name)> find_on_demand = nullptr;
  // An adapter's own chat template is used for chats with it.
  bool adapters_have_templates = true;
  // Detects the tool format of such templates; null: always `tool_format`.
  std::function<ToolFormat(const std::string& templates)> detect_tool_format = nullptr;
  std::string version = {};    // the program's, for /v1/stats
  std::string engine_id = {};  // for /v1/stats and the registry; empty: a new one
  // Shown by /v1/adapters and /metrics until an adapter of the name has been loaded.
  std::vector<RefusedAdapter> refused_adapters = {};
  std::string base_identity = {};  // for /v1/stats and routers; empty: unknown
  // Returns the digest of the adapter that a request with this GenerationRequest::adapter and
  // ::adapters would use now. The shared owner
  // identifies the content and changes when the adapter is replaced. Null: there is no such
  // adapter. Thread-safe. Not set: unknown.
  std::function<std::shared_ptr<const std::string>(const std::string& name,
                                                   std::span<const AdapterPart> parts)>
      adapter_digest = nullptr;
  SamplingParams sampling = {};          // defaults for requests that do not set them
  std::int64_t hidden_size = 0;          // numbers of an embedding
  std::vector<std::string> labels = {};  // of the base's score head
};

}  // namespace tandem
