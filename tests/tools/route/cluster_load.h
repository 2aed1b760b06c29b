// Clients of a cluster that run all the time: each asks a router, or another one if that breaks,
// and compares the answer with that of an undisturbed engine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/crowd.h"
#include "tests/tools/route/stream_calls.h"

namespace tandem {

// A stream from a server on this machine.
struct StreamAnswer {
  bool whole = false;  // false: no server, or the connection broke
  int status = 0;
  std::string head;
  Told told;
};
// `heard` is called at each piece with the silence before it.
StreamAnswer ask_stream(int port, const StreamCall& call,
                        const std::function<void(std::chrono::steady_clock::duration)>& heard = {});

class ClusterLoad {
 public:
  // `right`: the expected answer to each call.
  ClusterLoad(std::vector<int> routers, std::vector<StreamCall> calls, std::vector<Told> right)
      : routers_(std::move(routers)), calls_(std::move(calls)), right_(std::move(right)) {}

  void begin(int clients, unsigned seed);
  void stop() { crowd_.stop(); }

  // Totals over all clients; thread-safe.
  int served() const { return served_; }
  int asked_again() const { return asked_again_; }  // at another router
  bool failed() const { return crowd_.failed(); }
  std::string failure() const { return crowd_.failure(); }
  // Returns the longest silence of a stream since the last call.
  double take_longest_silence_s();

 private:
  void ask(std::mt19937& random);

  const std::vector<int> routers_;
  const std::vector<StreamCall> calls_;
  const std::vector<Told> right_;
  std::atomic<int> served_{0};
  std::atomic<int> asked_again_{0};
  std::atomic<std::int64_t> silence_us_{0};
  Crowd crowd_;  // last: its threads use the members above
};

}  // namespace tandem
