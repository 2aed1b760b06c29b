// The life of one sequence, from submit to its end (lifecycle.h). Its adapter counts it all the
// time: as waiting, and as running once it has begun.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/batching/line/lifecycle.h"
#include "engine/batching/line/request_context.h"

namespace tandem {

class SequenceLife {
 public:
  // Continuation `index` of a request; `context` outlives it. `arrival` identifies it in messages.
  SequenceLife(const RequestContext& context, std::int32_t index, std::uint64_t arrival);
  // Makes sure that its reader gets an end, and that its adapter no longer counts it.
  ~SequenceLife();
  SequenceLife(const SequenceLife&) = delete;
  SequenceLife& operator=(const SequenceLife&) = delete;

  // An event that cannot happen now is a bug, and aborts.
  void enter_line() { change(LifeEvent::enqueue); }
  void admit() { change(LifeEvent::admit); }
  void begin() { change(LifeEvent::begin); }
  void send_back() { change(LifeEvent::send_back); }
  void end() { change(LifeEvent::end); }

  Lifecycle state() const { return state_; }
  bool is_in_batch() const { return tandem::is_in_batch(state_); }
  bool has_begun() const { return tandem::has_begun(state_); }
  bool has_ended() const { return state_ == Lifecycle::ended; }

 private:
  void change(LifeEvent event);
  std::atomic<std::int32_t>* count_of(Lifecycle state) const;

  const RequestContext* context_;
  const std::int32_t index_;
  const std::uint64_t arrival_;
  Lifecycle state_ = Lifecycle::arriving;
};

}  // namespace tandem
