// Admission control under overload: S-LoRA's early abort (its appendix B).
//
// Waiting requests that would miss their first-token deadline even if they were begun at once are
// given up, so that the time goes to those that can make it. Whether the queue grows is told by two
// moving averages, of arrivals and of admissions in a period: while more come than are admitted the
// newest go first, since the oldest would be late by the time it is their turn; else the oldest.
//
// The paper takes the largest prefill in history. Here it is the largest of the last seconds, of
// prompts that are no longer than the one in question: one stall would else abort for ever, and one
// long document all short questions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tandem {

// Pure: told of times in seconds and of counts. Not thread-safe.
class EarlyAbort {
 public:
  enum class Lateness {
    in_time,
    expired,      // its deadline has passed
    unreachable,  // it would have by the end of a prefill that is begun now
  };

  // One has come; one is admitted.
  void came() { ++arrived_; }
  void was_admitted() { ++admitted_; }
  // By any clock, now and then, whether or not anything happened: ends periods.
  void tick(double now_s);
  // A period has ended: so many requests came in it, so many were admitted. Periods in which
  // nothing came and nothing was admitted tell nothing of the rates, and are added to the next one.
  void end_period(std::int64_t arrived, std::int64_t admitted, double seconds);
  // A prompt of so many tokens took so long, from its first step to its first token.
  void saw_prefill(double seconds, std::int64_t tokens);

  // Of one that has not begun. `idle`: nothing runs; then only those are late whose deadline has
  // passed, so that a wrong guess of what a prefill takes is found out.
  Lateness lateness(double waited_s, double deadline_s, std::int64_t tokens, bool idle) const {
    if (deadline_s > 0 && waited_s > deadline_s) return Lateness::expired;
    if (!idle && is_late(waited_s, deadline_s, tokens)) return Lateness::unreachable;
    return Lateness::in_time;
  }
  // It has waited too long for a deadline of so many seconds after it came; 0: there is none.
  bool is_late(double waited_s, double deadline_s, std::int64_t tokens) const {
    return deadline_s > 0 && waited_s + longest_prefill_s(tokens) > deadline_s;
  }
  // More come than are admitted, by more than what one request that was given up leaves behind.
  bool is_overloaded() const {
    constexpr double kMargin = 1.05;
    return arrivals_ > kMargin * admissions_;
  }
  // Of prompts of about so many tokens, or of fewer; 0: none was seen of late.
  double longest_prefill_s(std::int64_t tokens) const;
  // When a request that is refused now may come again: what `waiting` requests take at the rate of
  // admissions. At least one second, at most 60.
  double retry_after_s(std::int64_t waiting) const;

 private:
  // Of the prompts whose numbers of tokens have as many binary digits, the last few seconds or the
  // last few prompts: what is being gathered, and what was before.
  struct Window {
    double longest_s = 0;
    double longest_before_s = 0;
    std::int32_t count = 0;
    void turn();
  };
  static constexpr std::size_t kClasses = 24;

  static std::size_t class_of(std::int64_t tokens);

  // Of the period that tick() will end.
  std::optional<double> period_begin_s_;
  std::int64_t arrived_ = 0;
  std::int64_t admitted_ = 0;
  // Averages per period.
  double arrivals_ = 0;
  double admissions_ = 0;
  double period_s_ = 0;
  double empty_s_ = 0;  // periods in which nothing happened, since the last other one
  std::array<Window, kClasses> prefills_;
  double window_s_ = 0;  // how long the windows have been gathering
};

}  // namespace tandem
