// A child process of ours: fork, exec, pidfd, kill and wait in one place.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace tandem {

struct ChildProcessOptions {
  std::string program;                        // empty: the file that this very program runs from
  std::vector<std::string> arguments = {};    // the first is its name
  std::vector<std::string> environment = {};  // "NAME=value", all of it
  int input = -1;  // a descriptor that becomes its standard input; -1: an empty one
};

// A child that the kernel kills with the THREAD that started it (PR_SET_PDEATHSIG), however that
// ends. It gets no descriptor but its standard input and our standard output and error, no blocked
// or ignored signals, and a process group of its own, so that ^C at a terminal is a matter of its
// parent alone. Move-only; the destructor kills it and waits.
class ChildProcess {
 public:
  // Returns once the program runs; the failure of exec is one here. Neither the size nor the
  // threads of this process matter: the child borrows its memory until exec (vfork).
  static Result<ChildProcess> start(const ChildProcessOptions& options);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Readable, for poll(), once it has ended. -1 on kernels without: then only has_ended() tells.
  int descriptor() const { return descriptor_; }
  void kill(int signal);
  // Does not wait. Once it has ended, the child is reaped and its mappings are gone.
  bool has_ended();
  // How it ended: "signal 9 (Killed)", "exit status 3". Empty before.
  const std::string& end() const { return end_; }
  // -1: it has not ended, or a signal ended it.
  int exit_status() const { return exit_status_; }

 private:
  ChildProcess(pid_t pid, int descriptor) : pid_(pid), descriptor_(descriptor) {}
  void release();

  pid_t pid_ = 0;  // 0: moved from
  int descriptor_ = -1;
  std::string end_;
  int exit_status_ = -1;
};

// Those of this process's environment variables that concern no more than how a program runs: paths
// of libraries, language, time zone, tuning of oneDNN, sanitizers. No setting, no key.
std::vector<std::string> harmless_environment();

// The command line of a process; empty: it has ended, or may not be looked at.
std::vector<std::string> process_arguments(pid_t pid);

// Sends a signal to a process that is not our child, if `is_it` finds that it is the right one.
bool kill_if(pid_t pid, int signal, const std::function<bool()>& is_it);

}  // namespace tandem
