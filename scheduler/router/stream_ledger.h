// Reads the stream of /v1/relay as it passes: what of it is the client's, and which tokens the
// client has been told, so that another engine can go on.
//
// Lines that begin with ':' are the router's alone. Events are passed on byte for byte when they
// are whole, so that a stream that breaks off within one has not said half of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/weights_identity.h"

namespace tandem {

// Not thread-safe.
class StreamLedger {
 public:
  enum class News {
    more,
    done,     // the last event has been passed on
    moved,    // the engine gives the stream away
    failed,   // the engine says that it cannot go on; error_event() was not passed on
    hostile,  // no stream of an engine looks like that
  };
  static constexpr std::size_t kMaxEventBytes = 16U << 20;
  static constexpr std::size_t kMaxTokens = 4U << 20;  // of all choices
  static constexpr std::size_t kMaxChoices = 4096;

  // `choices`: prompts x n.
  StreamLedger(std::size_t choices, bool include_usage);

  // Appends to `out` what the client is to get.
  News take(std::string_view bytes, std::string& out);
  // The connection is over: what has come of an unfinished event was never said.
  void cut();

  // The client has been told something, so that another engine needs sent().
  bool began() const { return began_; }
  // The first choice that has not ended; 0 if all have.
  std::size_t first_open() const;
  // Nothing but "data: [DONE]" is missing.
  bool complete() const;
  std::string sent() const;  // the JSON list of /v1/relay's "sent"
  // What the client has been told comes from these; nothing: no engine has said so.
  const std::optional<WeightsIdentity>& weights() const { return weights_; }
  const std::string& error_event() const { return error_event_; }
  std::size_t num_tokens() const { return num_tokens_; }  // that were told

 private:
  struct Choice {
    std::vector<std::int32_t> tokens;
    std::size_t events = 0;  // that were passed on since the comment with its last token
    std::string finish;      // empty: it goes on
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
  std::string line_;              // so far
  std::string event_;             // its lines, without comments
  std::vector<Pending> pending_;  // told by comments, not yet by data of their choice
  // Told by a comment, and not yet by data that came of them.
  std::optional<WeightsIdentity> pending_weights_;
  std::optional<WeightsIdentity> weights_;
  bool commented_ = false;  // the event had a comment
  std::string error_event_;
  std::size_t num_tokens_ = 0;
  std::size_t finished_ = 0;
  bool began_ = false;
  bool usage_told_ = false;
  bool done_ = false;
};

}  // namespace tandem
