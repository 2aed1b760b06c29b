// A process that outlives the one that starts it: no terminal, no session, no descriptors of ours.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace tandem {

// Owns what the process writes to standard error, not the process: destruction leaves it running.
// Move-only.
class DetachedProcess {
 public:
  // Runs this very program with `arguments` (without its name) and `environment` ("NAME=value").
  static Result<DetachedProcess> start(const std::vector<std::string>& arguments,
                                       const std::vector<std::string>& environment);

  DetachedProcess(DetachedProcess&& other) noexcept;
  DetachedProcess& operator=(DetachedProcess&&) = delete;
  ~DetachedProcess();

  pid_t pid() const { return pid_; }
  // As long as its starter lives; reaps it. Does not wait.
  bool has_ended();
  // -1: it has not ended, or a signal ended it.
  int exit_status() const;
  // How it ended and what it said, in a line: "exit status 1: tandem worker: ...".
  std::string last_words() const;
  // What it wrote to standard error so far.
  std::string complaints() const;

 private:
  DetachedProcess(pid_t pid, int complaints) : pid_(pid), complaints_(complaints) {}

  pid_t pid_ = -1;
  int complaints_ = -1;  // a file in memory: unlike a pipe it never blocks or kills who writes
  int wait_status_ = 0;
  bool ended_ = false;
};

}  // namespace tandem
