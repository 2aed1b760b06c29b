// A process that outlives its parent: it has no terminal, no session and no descriptors of ours.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace tandem {

// Owns the process's standard error, not the process: the destructor leaves it running. Move-only.
class DetachedProcess {
 public:
  // Runs this program with `arguments` (without its name) and `environment` ("NAME=value").
  static Result<DetachedProcess> start(const std::vector<std::string>& arguments,
                                       const std::vector<std::string>& environment);

  DetachedProcess(DetachedProcess&& other) noexcept;
  DetachedProcess& operator=(DetachedProcess&&) = delete;
  ~DetachedProcess();

  pid_t pid() const { return pid_; }
  // Whether the process has ended; reaps it. Does not wait. Usable while its parent lives.
  bool has_ended();
  // -1: the process has not ended, or a signal ended it.
  int exit_status() const;
  // How the process ended and its last output in one line: "exit status 1: tandem worker: ...".
  std::string last_words() const;
  // Its standard error so far.
  std::string complaints() const;

 private:
  DetachedProcess(pid_t pid, int complaints) : pid_(pid), complaints_(complaints) {}

  pid_t pid_ = -1;
  int complaints_ = -1;  // a file in memory: unlike a pipe it never blocks or kills the writer
  int wait_status_ = 0;
  bool ended_ = false;
};

}  // namespace tandem
