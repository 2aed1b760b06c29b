// The handoff's protocol as a small state machine whose behaviours are explored exhaustively: two
// requests for two adapters, two layers, one mailbox, one or two workers, and one fault anywhere.
// Actions have the names of the functions that they stand for. An action includes only what no
// other party can observe, so that every relevant interleaving is covered.
//
//   engine   arrive, enqueue_step (with publish_job), end, mend (clear, quiet), at most two
//            steps under way
//   load     per layer: copy_to_device, then set_flag of the ready word
//   device   per layer: wait (for what is not handed over), offer (for each group: ticket and rows,
//            then the doorbell), lora, accept (for each group: answers or deadline, then the sum)
//   worker   read_job, wait_for_doorbell, read_x, write_y, store_done, leave; reap and restart
//   after it
//            is dead
//
// A stalled worker may continue later, or never. A worker that was sent SIGKILL may act until
// it is reaped, and a dead one may be restarted or left out. A deadline may pass whenever a
// party waits. Other tests cover parts A and B of a load, sites within a layer, and rings that
// wrap.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::protocol {

inline constexpr int kRequests = 2;
inline constexpr int kLayers = 2;  // at most
inline constexpr int kMostWorkers = 2;
inline constexpr int kMostJobs = 12;

// Rules that can be broken on purpose.
enum class Rule {
  all_hold,
  done_may_be_later,         // accept takes any done >= the job for an answer
  ready_before_the_copy,     // the load's flag is set before its bytes are there
  any_ready_word_counts,     // whatever its generation
  doorbell_before_the_rows,  // offer rings before x is in the mailbox
  lora_ignores_tickets,      // it also adds groups that workers compute
  reuse_before_quiet,        // a broken mailbox is opened at once
  dead_until_reaped,         // after SIGKILL a worker slot counts as empty
  timed_out_are_kept,        // the engine keeps rows of timed-out groups
  later_steps_are_kept,      // and rows of a step enqueued behind such a step
  accept_waits_for_ever,     // no deadline
  quiet_trusts_progress,     // whatever its value
  new_worker_takes_old_jobs  // after a restart a worker begins with jobs described before it
};

enum class Fault : std::uint8_t { none, death, stall, garbage };

struct Scenario {
  int workers = 1;
  int steps = 1;  // per request
  int requests = 2;
  int layers = 2;
  bool same_slot = false;     // the second adapter replaces the first one in its slot
  Fault fault = Fault::none;  // happens once, at any point
  Rule broken = Rule::all_hold;
};

struct Verdict {
  std::string violation;           // empty: none
  std::vector<std::string> trace;  // the actions that lead to it
  std::size_t states = 0;
  std::size_t ends = 0;  // number of states with all requests answered and nothing left to do
};

// Explores all behaviours. Violations: a delta that is added twice, missing or wrong in rows that
// are kept; a state without actions although a request is unanswered; a cycle, which would be an
// endless wait.
Verdict explore(const Scenario& scenario);

}  // namespace tandem::protocol
