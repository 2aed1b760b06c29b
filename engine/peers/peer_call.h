// Fetches one file of an adapter from one engine, within limits on what the peer may send.
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
  // The limit for a whole file: this long plus one second for each `bytes_per_s` of its maximal
  // size, so that a peer that sends a byte at a time is given up, too.
  Duration longest = std::chrono::seconds(30);
  std::uint64_t bytes_per_s = 4'000'000;
  // A minimum rate, so that a few bytes cannot take up all of a large file's time: in each `span`
  // this many bytes of the body must arrive, or the rest of it.
  Duration span = std::chrono::seconds(10);
  std::uint64_t bytes_per_span = 1'000'000;
};

// The outcome of a call. `status` has the details, except for `ok` and `lacks`.
struct PeerAnswer {
  enum class Kind {
    ok,
    lacks,   // it does not have the adapter
    busy,    // it sends as many files as it may at once; retry later
    failed,  // another peer may do better
    ours,    // caused by this engine, not by a peer
  };
  Kind kind = Kind::ok;
  Status status = {};

  static PeerAnswer failed(Status status) { return {Kind::failed, std::move(status)}; }
  static PeerAnswer ours(Status status) { return {Kind::ours, std::move(status)}; }
};

// Receives the bytes. A failure ends the call with Kind::ours, except that resource_exhausted from
// begin() is Kind::failed, because another peer may announce fewer bytes.
struct PeerSink {
  std::uint64_t max_bytes = 0;
  // Called before the first byte with the length that the peer announces, or max_bytes if it
  // announces none.
  std::function<Status(std::uint64_t bytes, bool is_announced)> begin = nullptr;
  std::function<Status(std::string_view bytes)> take;
};

// Ends the running call and all later ones, from another thread.
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

// Blocks the calling thread until the file has arrived or the call has failed. One call at a time
// for a `stop`.
PeerAnswer call_peer(const HttpAddress& peer, const std::string& target, const std::string& api_key,
                     const PeerTimes& times, const PeerSink& sink, PeerStop& stop);

}  // namespace tandem
