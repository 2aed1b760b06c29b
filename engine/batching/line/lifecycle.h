// The states of a sequence between submit and its end, and the events that change its state.
//
// Facts that follow from its tokens are not kept here a second time: whether it computes its prompt
// or decodes (Sequence::left_to_compute), and whether it pauses in the batch (Sequence::is_paused).
// The gate decides anew for each step whether its adapter lets it run (AdmissionGate).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

enum class Lifecycle : std::uint8_t {
  arriving,   // in the inbox
  waiting,    // in the line; no step has had rows of it
  admitted,   // in the batch, with its adapter and pages, for the step that is being planned
  running,    // in the batch; a step has had rows of it
  preempted,  // in the line again, without pages, to be computed again from its known tokens
  ended,      // left the scheduler; its reader has its end, and its results in flight are stale
};

enum class LifeEvent : std::uint8_t {
  enqueue,    // from the inbox into the line
  admit,      // from the line into the batch
  begin,      // its first rows are in a planned step
  send_back,  // from the batch to its place in the line
  end,        // its end is known, or was lost for lack of memory
};

constexpr std::optional<Lifecycle> next(Lifecycle state, LifeEvent event) {
  using enum Lifecycle;
  using On = LifeEvent;
  if (state == arriving && event == On::enqueue) return waiting;
  if (state == waiting && event == On::admit) return admitted;
  if (state == admitted && event == On::begin) return running;
  if (state == admitted && event == On::send_back) return waiting;  // planning the step failed
  if (state == running && event == On::send_back) return preempted;
  if (state == preempted && event == On::admit) return running;
  if (state != arriving && state != ended && event == On::end) return ended;
  return std::nullopt;  // any other pair is a bug
}
// A sequence ends once, and nothing brings it back.
static_assert(!next(Lifecycle::ended, LifeEvent::end));
static_assert(!next(Lifecycle::ended, LifeEvent::send_back));
static_assert(!next(Lifecycle::running, LifeEvent::admit));

// True if a step has had rows of it, now or before a preemption.
constexpr bool has_begun(Lifecycle state) {
  return state == Lifecycle::running || state == Lifecycle::preempted;
}
constexpr bool is_in_batch(Lifecycle state) {
  return state == Lifecycle::admitted || state == Lifecycle::running;
}

constexpr std::string_view to_string(Lifecycle state) {
  switch (state) {
    case Lifecycle::arriving:
      return "arriving";
    case Lifecycle::waiting:
      return "waiting";
    case Lifecycle::admitted:
      return "admitted";
    case Lifecycle::running:
      return "running";
    case Lifecycle::preempted:
      return "preempted";
    case Lifecycle::ended:
      return "ended";
  }
  return "?";
}

constexpr std::string_view to_string(LifeEvent event) {
  switch (event) {
    case LifeEvent::enqueue:
      return "enqueue";
    case LifeEvent::admit:
      return "admit";
    case LifeEvent::begin:
      return "begin";
    case LifeEvent::send_back:
      return "send_back";
    case LifeEvent::end:
      return "end";
  }
  return "?";
}

}  // namespace tandem
