// Reads the stream of /v1/relay as it passes: the part for the client, and the tokens that the
// client has received, so that another engine can continue.
//
// Lines that begin with ':' are for the router alone. Events are passed on byte for byte once they
// are whole, so that a stream that breaks off within one has not sent half of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids/weights_identity.h"

namespace tandem {

// Not thread-safe.
class StreamLedger {
 public:
  enum class News {
    more,
    done,     // the last event has been passed on
    moved,    // the engine moves the stream away
    failed,   // the engine cannot continue; error_event() was not passed on
    hostile,  // malformed: no engine sends such a stream
  };
  static constexpr std::size_t kMaxEventBytes = 16U << 20;
  static constexpr std::size_t kMaxTokens = 4U << 20;  // of all choices
  static constexpr std::size_t kMaxChoices = 4096;

  // `choices`: prompts x n.
  StreamLedger(std::size_t choices, bool include_usage);

  // Appends the client's bytes to `out`.
  News take(std::string_view bytes, std::string& out);
  // The connection is over: drops the unfinished event, which was not passed on.
  void cut();

  // The client has received something, so that another engine needs sent().
  bool began() const { return began_; }
  // The first choice that has not ended; 0 if all have.
  std::size_t first_open() const;
  // Only "data: [DONE]" is missing.
  bool complete() const;
  std::string sent() const;  // the JSON list of /v1/relay's "sent"
  // The weights that the client's tokens come from; empty if no engine has named them.
  const std::optional<WeightsIdentity>& weights() const { return weights_; }
  const std::string& error_event() const { return error_event_; }
  std::size_t num_tokens() const { return num_tokens_; }  // received by the client

 private:
  struct Choice {
    std::vector<std::int32_t> tokens;
    std::size_t events = 0;  // passed on since the comment with its last token
    std::string finish;      // empty: not finished
  };
  struct Pending {
    std::size_t choice = 0;
    std::int32_t token = 0;
  };

  News take_line(std::string_view line, std::string& out);
  News take_comment(std::string_view line);
  News take_tokens(std::string_view numbers);
  News take_weights(std::string_view words);
  News end_event(std::string& out);
  News judge(std::string_view data);
  bool take_pending(std::string_view data);
  bool note_choices(std::string_view data);

  std::vector<Choice> choices_;
  const bool include_usage_;
  std::string line_;              // the unfinished line
  std::string event_;             // lines of the event, without comments
  std::vector<Pending> pending_;  // from comments, before data of their choice
  // From a comment, before data that come from them.
  std::optional<WeightsIdentity> pending_weights_;
  std::optional<WeightsIdentity> weights_;
  bool commented_ = false;  // the event has a comment
  std::string error_event_;
  std::size_t num_tokens_ = 0;
  std::size_t finished_ = 0;
  bool began_ = false;
  bool usage_told_ = false;
  bool done_ = false;
};

}  // namespace tandem
