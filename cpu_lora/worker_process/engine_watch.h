// Checks whether another process still lives.
#pragma once

#include "base/status.h"

namespace tandem {

// Holds a descriptor of the process if the kernel supports it (5.3), so that a reused pid is not
// mistaken for the process. Move-only.
class EngineWatch {
 public:
  // unavailable: there is no such process. Call it before system calls are filtered.
  static Result<EngineWatch> open(int pid);
  EngineWatch(EngineWatch&& other) noexcept;
  EngineWatch& operator=(EngineWatch&&) = delete;
  ~EngineWatch();

  bool alive() const;

 private:
  EngineWatch(int pid, int descriptor) : pid_(pid), descriptor_(descriptor) {}
  int pid_;
  int descriptor_;  // -1: none
};

}  // namespace tandem
