// A server that computes nothing and answers with tokens after known delays. Tests check the load
// generator's figures with it, and measure the generator's own speed.
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
  double tpot_s = 0;  // 0: all later tokens follow the first at once
};

// The stub's actual times by its own clock, because other processes may delay it, too.
struct StubServed {
  double ttft_s = 0;  // from the request's arrival to the sending of the first token
  double e2el_s = 0;
};

// Answers POST to any path like a completions endpoint, with max_tokens tokens; lists the model
// "stub".
class StubServer {
 public:
  // `delays` returns the delays of the n-th request. Called by the server's threads, one at a time.
  explicit StubServer(std::function<StubDelays(std::int64_t n)> delays);
  ~StubServer();
  StubServer(const StubServer&) = delete;
  StubServer& operator=(const StubServer&) = delete;

  Status start();
  int port() const;
  std::vector<StubServed> served() const;  // finished answers, in any order

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A StubServer in its own process, so that the two do not compete for a core.
class StubProcess {
 public:
  // Forks, so this process must have no other thread.
  static Result<std::unique_ptr<StubProcess>> start(const StubDelays& delays);
  ~StubProcess();  // ends the process
  StubProcess(const StubProcess&) = delete;
  StubProcess& operator=(const StubProcess&) = delete;
  int port() const { return port_; }

 private:
  StubProcess() = default;
  pid_t child_ = -1;
  int until_ = -1;  // the child ends when this end of its pipe closes
  int port_ = 0;
};

}  // namespace tandem
