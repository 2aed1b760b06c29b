// One file of an adapter, asked of one engine: what a peer may do is bounded here.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/http/client/http_client.h"
#include "base/status.h"

namespace tandem {

struct PeerTimes {
  CallDeadlines deadlines{std::chrono::seconds(2), std::chrono::seconds(10),
                          std::chrono::seconds(10)};
  // A file must have come after so long and a second for each so many bytes that it may have: one
  // that comes a byte at a time is late, too.
  Duration longest = std::chrono::seconds(30);
  std::uint64_t bytes_per_s = 4'000'000;
  // Nor may all of a large file's time be had by a few bytes: of a body so many must come in each
  // such span, or the rest of it.
  Duration span = std::chrono::seconds(10);
  std::uint64_t bytes_per_span = 1'000'000;
};

// What became of it. `status` says more, but for `ok` and `lacks`.
struct PeerAnswer {
  enum class Kind {
    ok,
    lacks,   // it does not have the adapter
    busy,    // it sends as much as it does at once: later, perhaps
    failed,  // another peer may do better
    ours,    // no peer's fault
  };
  Kind kind = Kind::ok;
  Status status = {};

  static PeerAnswer failed(Status status) { return {Kind::failed, std::move(status)}; }
  static PeerAnswer ours(Status status) { return {Kind::ours, std::move(status)}; }
};

// What is done with the bytes. A failure ends the call: Kind::ours, but for begin()'s
// resource_exhausted: another peer may announce less.
struct PeerSink {
  std::uint64_t max_bytes = 0;
  // With the length that the peer announces, max_bytes if none; before the first byte.
  std::function<Status(std::uint64_t bytes, bool is_announced)> begin = nullptr;
  std::function<Status(std::string_view bytes)> take;
};

// Ends the calls that are under way and all later ones, from another thread.
class PeerStop {
 public:
  void stop();

 private:
  friend PeerAnswer call_peer(const HttpAddress&, const std::string&, const std::string&,
                              const PeerTimes&, const PeerSink&, PeerStop&);
  struct Running;
  std::mutex mutex_;  // guards these
  bool stopped_ = false;
  EventLoop* running_ = nullptr;
};

// Takes as long as the file takes to come, on the calling thread. One call at a time for a `stop`.
PeerAnswer call_peer(const HttpAddress& peer, const std::string& target, const std::string& api_key,
                     const PeerTimes& times, const PeerSink& sink, PeerStop& stop);

}  // namespace tandem
