// The REST server over one GenerationService: OpenAI's completions and chat, adapters, metrics.
//
// Threads: those of base/http. Two serve all connections; a few workers parse, submit to the
// service and make whole answers; loads of adapters have one of their own. The engine runs
// elsewhere. Life: create -> start (answers /health; /ready and the rest say 503 "starting") ->
// attach (serves) -> drain (new requests get 503, running ones finish) -> stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/server/messages/text_codec.h"
#include "engine/service/service.h"

namespace tandem {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;      // 0: any free one; Server::port() tells which
  std::string api_key;  // empty: everybody may ask. Else every call but /health needs it
  // Where load_lora_adapter may read from. Empty: loading and unloading over REST are off.
  std::vector<std::filesystem::path> adapter_roots;
  std::size_t max_body_bytes = 8U << 20;  // longer request bodies are a 413
  int max_connections = 1024;             // more are told 503 and closed
  // An idle kept-alive connection is closed after this; a client that sends or reads nothing for
  // this long while the server waits for it is given up, and its request is cancelled.
  Duration keep_alive = std::chrono::seconds(30);
  Duration client_timeout = std::chrono::seconds(60);
  std::int32_t max_sequences_per_request = 256;  // prompts x n of one call
  // Origins whose pages may call from a browser; "*": all. None: browsers are told nothing.
  std::vector<std::string> cors_origins;
  bool request_log = true;                   // a line in the log for each request that ended
  bool trust_request_chat_template = false;  // requests may bring a chat template of their own
  // What one answer, and all of them at once, may take in memory (answer_price.h): a call that
  // might take more is a 400, one for which too little is left a 429.
  std::uint64_t max_answer_bytes = 128U << 20;
  std::uint64_t max_answers_bytes = 1U << 30;
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
};

// Thread-safe, but for create, start and the destructor.
class Server {
 public:
  // Checks the options (roots exist, sizes are sane); binds nothing yet.
  static Result<std::unique_ptr<Server>> create(const ServerOptions& options);
  ~Server();  // stop()

  // Binds and serves from threads of its own; returns when connections are accepted.
  Status start();
  int port() const;  // 0 before start()
  // Once, when the model is loaded; /ready is then what service->ready() says.
  void attach(ServedModel model);

  // New requests get 503 from now on, /ready says 503, /health stays 200. Returns at once.
  void drain();
  // drain(), waits at most `timeout` for running requests to end, then stop(). True: all ended.
  bool drain_and_stop(Duration timeout);
  // Cuts what still runs and joins every thread. Idempotent; a running drain_and_stop returns too.
  void stop();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
