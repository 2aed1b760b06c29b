// The REST server over one GenerationService: OpenAI's completions and chat, adapters, metrics.
//
// Threads: those of base/http. Two serve all connections; a few workers parse, submit to the
// service and make whole answers; loads of adapters have a thread of their own. The engine runs on
// other threads. Life cycle: create -> start (answers /health; /ready and the rest return 503
// "starting") -> attach (serves) -> drain (new requests get 503, running ones finish) -> stop.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "engine/server/options/server_options.h"

namespace tandem {

// Thread-safe, except for create, start and the destructor.
class Server {
 public:
  // Checks the options (existing roots, valid sizes); binds nothing yet.
  static Result<std::unique_ptr<Server>> create(const ServerOptions& options);
  ~Server();  // calls stop()

  // Binds and serves on its own threads; returns when connections are accepted.
  Status start();
  int port() const;  // 0 before start()
  // Call it once, when the model is loaded. /ready then reports service->ready().
  void attach(ServedModel model);

  // From now on new requests and /ready get 503; /health stays 200. Returns at once.
  void drain();
  // Calls drain() and waits at most `timeout` for running requests to end. The remaining ones get
  // an error, for which half a second is allowed. Then calls stop(). True: all ended in time.
  bool drain_and_stop(Duration timeout);
  // Ends what still runs and joins all threads. Idempotent; a running drain_and_stop returns, too.
  void stop();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
