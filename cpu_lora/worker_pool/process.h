// A child process: fork, exec, pidfd, kill and wait in one place.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace tandem {

struct ChildProcessOptions {
  std::string program;                        // empty: the executable of this process
  std::vector<std::string> arguments = {};    // the first one is the program's name
  std::vector<std::string> environment = {};  // "NAME=value"; nothing is inherited
  int input = -1;  // a descriptor that becomes its standard input; -1: /dev/null
};

// A child process that the kernel kills when the THREAD that started it ends (PR_SET_PDEATHSIG),
// for whatever reason. The child gets no descriptors except its standard input and our standard
// output and error, no blocked or ignored signals, and its own process group, so that ^C at a
// terminal reaches only its parent. Move-only; the destructor kills the child and waits for it.
class ChildProcess {
 public:
  // Returns when the program runs; a failed exec is returned as an error. The size and the threads
  // of this process do not matter: the child uses its memory until exec (vfork).
  static Result<ChildProcess> start(const ChildProcessOptions& options);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Descriptor that becomes readable, for poll(), when the child has ended. -1 on kernels without
  // pidfd: then only has_ended() detects the end.
  int descriptor() const { return descriptor_; }
  void kill(int signal);
  // Does not wait. When it returns true, the child is reaped and its mappings are gone.
  bool has_ended();
  // How the child ended: "signal 9 (Killed)", "exit status 3". Empty while it runs.
  const std::string& end() const { return end_; }
  // -1: the child has not ended, or a signal ended it.
  int exit_status() const { return exit_status_; }

 private:
  ChildProcess(pid_t pid, int descriptor) : pid_(pid), descriptor_(descriptor) {}
  void release();

  pid_t pid_ = 0;  // 0: moved from
  int descriptor_ = -1;
  std::string end_;
  int exit_status_ = -1;
};

// The environment variables of this process that only affect how a program runs: library paths,
// language, time zone, oneDNN tuning, sanitizers. They contain no settings and no keys.
std::vector<std::string> harmless_environment();

// The command line of a process; empty if it has ended or access is denied.
std::vector<std::string> process_arguments(pid_t pid);

// Sends a signal to a process that is not our child, if `is_it` confirms its identity.
bool kill_if(pid_t pid, int signal, const std::function<bool()>& is_it);

}  // namespace tandem
