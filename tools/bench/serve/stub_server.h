// A server that computes nothing and answers with tokens after known delays: the judge of the load
// generator, and what its own speed is measured against.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"

namespace tandem {

struct StubDelays {
  double ttft_s = 0;
  double tpot_s = 0;  // 0: all tokens but the first follow it at once
};

// What the stub really did, by its own clock: other work on the machine makes it late, too.
struct StubServed {
  double ttft_s = 0;  // from the request's arrival to its first token's way out
  double e2el_s = 0;
};

// Answers POST to any path, as completions do, with as many tokens as max_tokens says; lists the
// model "stub".
class StubServer {
 public:
  // `delays` of the n-th request; called from the server's threads, one at a time.
  explicit StubServer(std::function<StubDelays(std::int64_t n)> delays);
  ~StubServer();
  StubServer(const StubServer&) = delete;
  StubServer& operator=(const StubServer&) = delete;

  Status start();
  int port() const;
  std::vector<StubServed> served() const;  // of the answers that are over, in any order

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A StubServer in a process of its own, so that neither takes the other's core.
class StubProcess {
 public:
  // Forks: no other thread may run in this process.
  static Result<std::unique_ptr<StubProcess>> start(const StubDelays& delays);
  ~StubProcess();  // ends it
  StubProcess(const StubProcess&) = delete;
  StubProcess& operator=(const StubProcess&) = delete;
  int port() const { return port_; }

 private:
  StubProcess() = default;
  pid_t child_ = -1;
  int until_ = -1;  // the child ends when this end of its pipe is closed
  int port_ = 0;
};

}  // namespace tandem
