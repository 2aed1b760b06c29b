// The requirement of a sequence in addition to pages: its adapter.
#pragma once

#include "engine/batching/line/sequence.h"

namespace tandem {

class AdmissionGate {
 public:
  AdmissionGate() = default;
  AdmissionGate(const AdmissionGate&) = delete;
  AdmissionGate& operator=(const AdmissionGate&) = delete;
  virtual ~AdmissionGate() = default;

  // Called before a step is planned; calls of enter() follow.
  virtual void plan_begins() {}
  // Returns true if the sequence may run, until leave(); false if not now, and later ones go on.
  virtual bool enter(Sequence& sequence) = 0;
  virtual void leave(const Sequence& sequence) = 0;
  // Called after enter() if the sequence got pages and rows; otherwise leave() follows at once.
  virtual void begins(const Sequence& /*sequence*/) {}
  // True if its results may turn out to be invalid, so that they must not be shared yet.
  virtual bool is_in_doubt(const Sequence& /*sequence*/) const { return false; }
  // True if something in flight will admit sequences, or free pages.
  virtual bool is_waiting() const = 0;
};

}  // namespace tandem
