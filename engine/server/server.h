// The REST server over one GenerationService: OpenAI's completions and chat, adapters, metrics.
//
// Threads: those of base/http. Two serve all connections; a few workers parse, submit to the
// service and make whole answers; loads of adapters have one of their own. The engine runs
// elsewhere. Life: create -> start (answers /health; /ready and the rest say 503 "starting") ->
// attach (serves) -> drain (new requests get 503, running ones finish) -> stop.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "engine/server/options/server_options.h"

namespace tandem {

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
  // drain(), waits at most `timeout` for running requests to end; those that have not are told so
  // (half a second for that); then stop(). True: all ended.
  bool drain_and_stop(Duration timeout);
  // Cuts what still runs and joins every thread. Idempotent; a running drain_and_stop returns too.
  void stop();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
