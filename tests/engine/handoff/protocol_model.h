// The handoff's protocol as a small machine whose every behaviour can be walked through: two
// requests for two adapters, two layers, one mailbox, one or two workers, and one fault anywhere.
// Actions bear the names of the functions that they stand for; one action is what no other party
// can look into, so that every interleaving that matters is there.
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
// A stalled worker may go on later, or never; one that was sent SIGKILL may act until it is reaped;
// one that died may be started again, or be left out. A deadline may pass whenever something is
// waited for. Left out, for other tests: parts A and B of a load, sites within a layer, rings that
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
  done_may_be_later,         // accept takes done >= the job for an answer
  ready_before_the_copy,     // the load's flag is set before its bytes are there
  any_ready_word_counts,     // whatever generation it holds
  doorbell_before_the_rows,  // offer rings before x is in the mailbox
  lora_ignores_tickets,      // and adds groups that workers compute
  reuse_before_quiet,        // a broken mailbox is opened at once
  dead_until_reaped,         // a worker slot counts as empty when its worker was sent SIGKILL
  timed_out_are_kept,        // the engine keeps rows of void groups
  later_steps_are_kept,      // and those of a step that was under way behind a void one
  accept_waits_for_ever,     // no deadline
  quiet_trusts_progress,     // of any value
  new_worker_takes_old_jobs  // one that was started again begins with jobs described before
};

enum class Fault : std::uint8_t { none, death, stall, garbage };

struct Scenario {
  int workers = 1;
  int steps = 1;  // of each request
  int requests = 2;
  int layers = 2;
  bool same_slot = false;     // the second adapter is loaded where the first was, after it
  Fault fault = Fault::none;  // once, at any point
  Rule broken = Rule::all_hold;
};

struct Verdict {
  std::string violation;           // empty: none
  std::vector<std::string> trace;  // the actions that lead there
  std::size_t states = 0;
  std::size_t ends = 0;  // states in which all requests are answered and nothing is left to do
};

// Walks through all behaviours. Violations: a delta that is added twice, missing or wrong in rows
// that are kept; a state from which nothing goes on though a request is unanswered; a cycle, which
// would be a wait without end.
Verdict explore(const Scenario& scenario);

}  // namespace tandem::protocol
