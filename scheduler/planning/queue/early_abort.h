// Admission control under overload: S-LoRA's early abort (its appendix B).
//
// Waiting requests that would miss their first-token deadline even if they began at once are
// aborted, so that the time goes to requests that can meet it. Two moving averages, of arrivals and
// of admissions per period, show whether the queue grows: while arrivals exceed admissions the
// newest requests go first, because the oldest would begin too late; otherwise the oldest go
// first.
//
// The paper uses the longest prefill ever seen. Here it is the longest of the last seconds, of
// prompts that are no longer than the one in question; otherwise one stall would cause aborts for
// ever, and one long document would abort all short questions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tandem {

// Pure: the caller passes times in seconds and counts. Not thread-safe.
class EarlyAbort {
 public:
  enum class Lateness {
    in_time,
    expired,      // its deadline has passed
    unreachable,  // it would pass before the end of a prefill that begins now
  };

  // Count an arrival and an admission.
  void came() { ++arrived_; }
  void was_admitted() { ++admitted_; }
  // Ends periods; call it regularly with any clock, also if nothing happened.
  void tick(double now_s);
  // Ends a period with the given arrivals and admissions. A period without either does not change
  // the averages; its time is added to the next one.
  void end_period(std::int64_t arrived, std::int64_t admitted, double seconds);
  // Records the time of a prompt of `tokens` tokens from its first step to its first token.
  void saw_prefill(double seconds, std::int64_t tokens);

  // The lateness of a request that has not begun. `idle`: nothing runs; then only requests whose
  // deadline has passed are late, so that a wrong estimate of prefill time is corrected.
  Lateness lateness(double waited_s, double deadline_s, std::int64_t tokens, bool idle) const {
    if (deadline_s > 0 && waited_s > deadline_s) return Lateness::expired;
    if (!idle && is_late(waited_s, deadline_s, tokens)) return Lateness::unreachable;
    return Lateness::in_time;
  }
  // Whether a request cannot meet its deadline, in seconds after its arrival; 0: it has none.
  bool is_late(double waited_s, double deadline_s, std::int64_t tokens) const {
    return deadline_s > 0 && waited_s + longest_prefill_s(tokens) > deadline_s;
  }
  // Whether arrivals exceed admissions by more than one aborted request explains.
  bool is_overloaded() const {
    constexpr double kMargin = 1.05;
    return arrivals_ > kMargin * admissions_;
  }
  // The longest recent prefill of prompts of about this many tokens or fewer; 0: none.
  double longest_prefill_s(std::int64_t tokens) const;
  // When a client should retry a refused request: the time that `waiting` requests take at the rate
  // of admissions, clamped to 1 to 60 seconds.
  double retry_after_s(std::int64_t waiting) const;

 private:
  // The longest prefill of prompts whose numbers of tokens have the same number of binary digits,
  // for the current window and the one before.
  struct Window {
    double longest_s = 0;
    double longest_before_s = 0;
    std::int32_t count = 0;
    void turn();
  };
  static constexpr std::size_t kClasses = 24;

  static std::size_t class_of(std::int64_t tokens);

  // The period that tick() will end.
  std::optional<double> period_begin_s_;
  std::int64_t arrived_ = 0;
  std::int64_t admitted_ = 0;
  // Averages per period.
  double arrivals_ = 0;
  double admissions_ = 0;
  double period_s_ = 0;
  double empty_s_ = 0;  // length of the empty periods since the last non-empty one
  std::array<Window, kClasses> prefills_;
  double window_s_ = 0;  // length of the current windows
};

}  // namespace tandem
