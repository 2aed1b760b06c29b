// The transitions of the handoff protocol's model (protocol_model.h): what each party can do next.
#pragma once

#include <functional>

#include "tests/engine/handoff/protocol_state.h"

namespace tandem::protocol {

inline u8 bit(int index) {
  return static_cast<u8>(1 << index);
}
inline bool has(u8 mask, int index) {
  return (mask >> index & 1) != 0;
}
inline u8 generation(int request) {
  return static_cast<u8>(request + 1);
}

// Receives an action, the state it leads to, and the rule that it breaks, or null.
using Emit = std::function<void(const char* action, const State& next, const char* violation)>;

// Generates the transitions of a state and checks whether they are allowed.
class Machine {
 public:
  explicit Machine(const Scenario& scenario) : scenario_(scenario) {}

  State first() const {
    State state{};
    for (int w = 0; w < kMostWorkers; ++w) {
      Worker& worker = state.workers[w];
      worker.at = w < scenario_.workers ? At::idle : At::gone;
      worker.next = 1;
    }
    state.faults = scenario_.fault == Fault::none ? 0 : 1;
    return state;
  }

  // Runs the device's actions that no other party can observe, so that no state begins with one.
  void settle(State& s) const {
    while (true) {
      const int running = running_step(s);
      if (running < 0) return;
      Step& step = s.steps[running];
      const int r = request_of(step, s.group);
      if (s.op == Op::wait && !waits(step)) {
        s.op = Op::copy;
      } else if (s.op == Op::copy && r < 0) {
        s.op = Op::lora;
      } else if (s.op == Op::accept && r < 0) {
        next_layer(s, step);
      } else if (s.op == Op::accept && s.tickets[s.group] == Call::gpu) {
        ++s.group;
      } else {
        return;
      }
    }
  }

  bool is_over(const State& s) const {
    for (int r = 0; r < scenario_.requests; ++r) {
      if (s.requests[r].phase != Phase::answered) return false;
    }
    return true;
  }

  // Calls emit(action, state, violation) for each possible action.
  void act(const State& s, const Emit& emit) const {
    engine(s, emit);
    load(s, emit);
    device(s, emit);
    for (int w = 0; w < scenario_.workers; ++w) worker(s, w, emit);
  }

 private:
  bool is(Rule rule) const { return scenario_.broken == rule; }
  u8 loaded() const { return static_cast<u8>(2 * scenario_.layers); }  // Request::load at its end
  int slot(int request) const { return scenario_.same_slot ? 0 : request; }

  // The engine.

  void engine(const State& s, const Emit& emit) const {
    for (int r = 0; r < scenario_.requests; ++r) {
      // Adapters of different slots are equivalent, so the first always comes first.
      if (r > 0 && s.requests[r - 1].phase == Phase::absent) continue;
      if (s.requests[r].phase == Phase::absent && may_load(s, r)) {
        State next = s;
        next.requests[r].phase = Phase::active;
        next.load_queue[next.load_queue[0] == 0 ? 0 : 1] = generation(r);
        emit("arrive", next, nullptr);
      }
    }
    enqueue_step(s, emit);
    if (s.steps[0].present != 0 && s.steps[0].ended != 0) end(s, emit);
    if (s.box_broken != 0) mend(s, emit);
  }

  // True if the adapter may load. In a shared slot it evicts the first one once that is unused.
  bool may_load(const State& s, int r) const {
    if (!scenario_.same_slot || r == 0) return true;
    return s.requests[0].phase == Phase::answered && s.requests[0].load == loaded() &&
           s.steps[0].present == 0;
  }

  void enqueue_step(const State& s, const Emit& emit) const {
    const int place = s.steps[0].present == 0 ? 0 : 1;
    if (s.steps[place].present != 0) return;
    // A stalled worker counts as live until a heartbeat is missed, so both cases are generated.
    u8 awake = 0;
    u8 stalled = 0;
    for (int w = 0; w < scenario_.workers; ++w) {
      if (s.workers[w].at < At::idle || s.workers[w].condemned != 0) continue;
      (s.workers[w].stalled != 0 ? stalled : awake) |= bit(w);
    }
    enqueue_with(s, place, awake, emit);
    if (stalled != 0) enqueue_with(s, place, awake | stalled, emit);
  }

  void enqueue_with(const State& s, int place, u8 live, const Emit& emit) const {
    State next = s;
    Step& step = next.steps[place];
    step.present = 1;
    step.first_job = s.published + 1;
    step.workers = live;
    JobWords job{.request = {}, .workers = live};
    int groups = 0;
    bool any = false;
    for (int r = 0; r < scenario_.requests; ++r) {
      Request& request = next.requests[r];
      const bool resident = request.load == loaded();
      if (request.phase == Phase::replay && resident) request.phase = Phase::active;
      if (request.phase != Phase::active || request.enqueued == scenario_.steps) continue;
      ++request.enqueued;
      any = true;
      step.kind[r] =
          resident ? Kind::resident : (live == 0 || s.box_broken != 0 ? Kind::wait : Kind::cold);
      if (step.kind[r] == Kind::cold) job.request[groups++] = generation(r);
    }
    if (!any) return;
    for (int l = 0; l < scenario_.layers && groups > 0; ++l) next.jobs.at(++next.published) = job;
    emit("enqueue_step", next, nullptr);
  }

  void end(const State& s, const Emit& emit) const {
    State next = s;
    const Step& step = s.steps[0];
    const char* violation = nullptr;
    int group = 0;
    for (int r = 0; r < scenario_.requests; ++r) {
      if (step.kind[r] == Kind::none) continue;
      const bool timed_out = step.kind[r] == Kind::cold && has(step.timed_out, group++);
      Request& request = next.requests[r];
      if (timed_out) next.box_broken = 1;
      if (has(step.discard, r) && !is(Rule::later_steps_are_kept)) continue;
      if (timed_out && !is(Rule::timed_out_are_kept)) {
        request.phase = Phase::replay;
        request.enqueued = request.confirmed;
        if (s.steps[1].present != 0) next.steps[1].discard |= bit(r);
        continue;
      }
      for (int l = 0; l < scenario_.layers; ++l) {
        const u8 times = step.added[r][l];
        if (times == 0) violation = "a delta was missed";
        if (times > 1) violation = "a delta was added twice";
      }
      if (has(step.wrong, r)) violation = "a wrong delta was added";
      if (request.phase == Phase::replay) violation = "rows were kept behind timed-out ones";
      if (++request.confirmed == scenario_.steps) request.phase = Phase::answered;
    }
    next.steps[0] = next.steps[1];
    next.steps[1] = Step{};
    emit("end", next, violation);
  }

  bool is_quiet(const State& s, int w) const {
    const Worker& worker = s.workers[w];
    if (worker.at <= At::dead) return true;
    if (worker.condemned != 0 && is(Rule::dead_until_reaped)) return true;
    if (worker.progress > s.published && !is(Rule::quiet_trusts_progress)) return false;
    return worker.progress >= s.published;
  }

  void mend(const State& s, const Emit& emit) const {
    for (const Step& step : s.steps) {
      for (const Kind kind : step.kind) {
        if (kind == Kind::cold) return;
      }
    }
    bool quiet = true;
    for (int w = 0; w < scenario_.workers; ++w) {
      if (is_quiet(s, w) || is(Rule::reuse_before_quiet)) continue;
      quiet = false;
      if (s.workers[w].at < At::idle || s.workers[w].condemned != 0) continue;
      State next = s;
      next.workers[w].condemned = 1;
      emit("clear", next, nullptr);
    }
    if (!quiet) return;
    State next = s;
    next.broken = next.box_broken = 0;
    emit("mend", next, nullptr);
  }

  // The load stream.

  void load(const State& s, const Emit& emit) const {
    for (const u8 queued : s.load_queue) {
      if (queued == 0) return;
      const int r = queued - 1;
      const u8 at = s.requests[r].load;
      if (at == loaded()) continue;
      State next = s;
      ++next.requests[r].load;
      const bool copies = (at % 2 == 0) != is(Rule::ready_before_the_copy);
      (copies ? next.weights : next.ready)[slot(r)][at / 2] = generation(r);
      emit(copies ? "copy_to_device" : "set_flag", next, nullptr);
      return;
    }
  }

  // The device: one compute stream, steps in order.

  static int request_of(const Step& step, int group) {
    for (int r = 0; r < kRequests; ++r) {
      if (step.kind[r] == Kind::cold && group-- == 0) return r;
    }
    return -1;
  }

  static int running_step(const State& s) {
    for (int i = 0; i < kStepsUnderWay; ++i) {
      if (s.steps[i].present != 0 && s.steps[i].ended == 0) return i;
    }
    return -1;
  }

  static bool waits(const Step& step) {
    for (const Kind kind : step.kind) {
      if (kind == Kind::wait) return true;
    }
    return false;
  }

  void device(const State& s, const Emit& emit) const {
    const int running = running_step(s);
    if (running < 0) return;
    State next = s;
    Step& step = next.steps[running];
    const int r = request_of(step, s.group);
    switch (s.op) {
      case Op::wait:
        for (int i = 0; i < kRequests; ++i) {
          if (step.kind[i] == Kind::wait && s.requests[i].load < 2 * (s.layer + 1)) return;
        }
        next.op = Op::copy;
        return emit("wait", next, nullptr);
      case Op::copy:
        next.op = Op::ring;
        decide(next, r);
        is(Rule::doorbell_before_the_rows) ? ring(next, step) : write_rows(next, step);
        return emit("offer", next, nullptr);
      case Op::ring:
        is(Rule::doorbell_before_the_rows) ? write_rows(next, step) : ring(next, step);
        ++next.group;
        next.op = Op::copy;
        return emit("offer, doorbell", next, nullptr);
      case Op::lora:
        lora(next, step);
        next.group = 0;
        next.op = Op::accept;
        return emit("lora", next, nullptr);
      case Op::accept:
        return accept(s, next, step, emit);
      case Op::add:
        add(next, step, r);
        return emit("accept, add", next, nullptr);
    }
  }

  u8 job_of(const State& s, const Step& step) const { return step.first_job + s.layer; }

  void decide(State& s, int r) const {
    const u8 word = s.ready[slot(r)][s.layer];
    const bool there = is(Rule::any_ready_word_counts) ? word != 0 : word == generation(r);
    const bool broken = s.broken != 0;
    s.tickets[s.group] = there ? Call::gpu : (broken ? Call::dropped : Call::cpu);
  }

  void write_rows(State& s, const Step& step) const {
    if (s.tickets[s.group] == Call::cpu) s.x[s.group] = job_of(s, step);
  }

  void ring(State& s, const Step& step) const {
    s.doorbell[s.group] = job_of(s, step);
    s.doorbell_call[s.group] = s.tickets[s.group];
  }

  void lora(State& s, Step& step) const {
    int group = 0;
    for (int r = 0; r < kRequests; ++r) {
      bool live = step.kind[r] == Kind::resident || step.kind[r] == Kind::wait;
      if (step.kind[r] == Kind::cold) {
        live = s.tickets[group++] == Call::gpu || is(Rule::lora_ignores_tickets);
      }
      if (!live) continue;
      ++step.added[r][s.layer];
      if (s.weights[slot(r)][s.layer] != generation(r)) step.wrong |= bit(r);
    }
  }

  void accept(const State& s, State& next, Step& step, const Emit& emit) const {
    const bool broken = s.broken != 0;
    if (s.tickets[s.group] == Call::dropped || broken) {
      time_out_group(next, step);
      return emit("accept, timed out", next, nullptr);
    }
    const u8 job = job_of(s, step);
    bool answered = true;
    for (int w = 0; w < scenario_.workers; ++w) {
      if (!has(step.workers, w)) continue;
      const u8 done = s.workers[w].done[s.group];
      answered = answered && (done == job || (done > job && is(Rule::done_may_be_later)));
    }
    if (answered) {
      next.op = Op::add;
      return emit("accept, answered", next, nullptr);
    }
    if (is(Rule::accept_waits_for_ever)) return;
    time_out_group(next, step);
    emit("accept, deadline", next, nullptr);
  }

  static void time_out_group(State& s, Step& step) {
    step.timed_out |= bit(s.group);
    s.broken = 1;
    ++s.group;
  }

  void add(State& s, Step& step, int r) const {
    ++step.added[r][s.layer];
    for (const u8 part : s.y[s.group]) {
      if (part != job_of(s, step)) step.wrong |= bit(r);
    }
    ++s.group;
    s.op = Op::accept;
  }

  void next_layer(State& s, Step& step) const {
    s.group = 0;
    s.op = Op::wait;
    s.tickets = {};
    if (++s.layer < scenario_.layers) return;
    s.layer = 0;
    step.ended = 1;
  }

  // A worker, and the pool that starts it again.

  void worker(const State& s, int w, const Emit& emit) const {
    State next = s;
    Worker& self = next.workers[w];
    if (self.at == At::gone) return;
    if (self.at == At::killed || self.condemned != 0) {
      State reaped = s;
      Worker& dead = reaped.workers[w];
      dead.at = At::dead;
      dead.stalled = dead.condemned = dead.group = dead.held = 0;
      emit("reap", reaped, nullptr);
      if (self.at == At::killed) return;
    }
    if (self.at == At::dead) {
      State left_out = s;
      left_out.workers[w].at = At::gone;
      emit("leave_out", left_out, nullptr);
      self.at = At::idle;
      self.progress = s.published;
      self.next = s.published + 1;
      if (is(Rule::new_worker_takes_old_jobs)) self.next = self.progress = 1;
      return emit("restart", next, nullptr);
    }
    if (s.faults != 0 && self.condemned == 0) fault(s, w, emit);
    if (self.stalled != 0) {
      if (self.condemned != 0) return;
      self.stalled = 0;
      return emit("go on", next, nullptr);
    }
    if (const char* const action = work(s, w, self, next)) emit(action, next, nullptr);
  }

  void fault(const State& s, int w, const Emit& emit) const {
    State next = s;
    Worker& self = next.workers[w];
    next.faults = 0;
    switch (scenario_.fault) {
      case Fault::none:
        return;
      case Fault::death:
        self.at = At::killed;
        return emit("die", next, nullptr);
      case Fault::stall:
        self.stalled = 1;
        return emit("stall", next, nullptr);
      case Fault::garbage:
        self.done.fill(kGarbage);
        emit("garbage in done", next, nullptr);
        next = s;
        next.faults = 0;
        next.workers[w].progress = kGarbage;
        next.workers[w].stalled = 1;
        return emit("garbage in progress", next, nullptr);
    }
  }

  // Returns the action of a working worker; null: it waits.
  const char* work(const State& s, int w, Worker& self, State& next) const {
    switch (self.at) {
      case At::idle:
        if (s.published < self.next) return nullptr;
        self.at = At::in_job;
        self.group = 0;
        return "read_job";
      case At::in_job:
        return wait_for_doorbell(s, w, self);
      case At::rung:
        self.held = s.x[self.group];
        self.at = At::has_x;
        return "read_x";
      case At::has_x:
        write_y(s, w, next);
        self.at = At::wrote_y;
        return "write_y";
      case At::wrote_y:
        self.done[self.group] = self.next;
        ++self.group;
        self.at = At::in_job;
        return "store_done";
      default:
        return nullptr;
    }
  }

  const char* wait_for_doorbell(const State& s, int w, Worker& self) const {
    const JobWords& job = s.jobs.at(self.next);
    const bool over = self.group == kGroups || job.request[self.group] == 0;
    if (over || !has(job.workers, w)) return leave(self);
    const u8 doorbell = s.doorbell[self.group];
    if (doorbell < self.next) return nullptr;
    if (doorbell > self.next) return leave(self);  // too late for this doorbell
    if (s.doorbell_call[self.group] == Call::cpu) {
      self.at = At::rung;
    } else {
      ++self.group;
    }
    return "wait_for_doorbell";
  }

  static const char* leave(Worker& self) {
    self.progress = self.next++;
    self.at = At::idle;
    self.group = self.held = 0;
    return "leave";
  }

  // Writes the worker's columns of y, or all columns if it is alone with the job. The result is
  // right only if the rows belong to this very job.
  void write_y(const State& s, int w, State& next) const {
    const Worker& self = s.workers[w];
    const u8 sharing = s.jobs.at(self.next).workers;
    for (int part = 0; part < kMostWorkers; ++part) {
      if (has(sharing, part) && part != w) continue;
      next.y[self.group][part] = self.held == self.next ? self.held : kGarbage;
    }
  }

  const Scenario scenario_;
};

}  // namespace tandem::protocol
