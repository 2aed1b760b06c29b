// Runs a program under test as a real process: arguments, variables, standard streams, signals.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/base/http/test_call.h"

namespace tandem {

// Returns the path of this build's `tandem`, or the one in TANDEM_TEST_PROGRAM.
std::string program_under_test();

struct ProcessOptions {
  std::map<std::string, std::string> environment;  // added; our own TANDEM_* are removed first
  std::string input;                               // less than 60 kB
  std::string folder;                              // working directory; empty: that of the test
  std::string output_file;                         // receives standard output; must exist
  std::string program;                             // path; empty: program_under_test()
};

class Process {
 public:
  // Starts program_under_test(). Aborts the test program if that is impossible.
  explicit Process(const std::vector<std::string>& args, ProcessOptions options = {});
  ~Process();  // kills it if it is running
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads until the stream has `text`; returns false if it ended or after a minute.
  bool wait_for_output(const std::string& text);
  bool wait_for_error(const std::string& text);
  // Returns the number after `before` once it is complete; 0: the stream ended, or after a minute.
  int wait_for_number(const std::string& before);
  // Reads what has arrived without waiting, because a full pipe blocks its writer.
  void read_what_is_there();
  pid_t pid() const { return pid_; }
  void send_signal(int number) const;
  // Reads to the end. Returns the exit status; 128 + signal if one killed it; -1: it was killed
  // because it took over two minutes.
  int wait();

  const std::string& output() const { return output_; }
  const std::string& error() const { return error_; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  bool read_some(Deadline deadline);  // false: both streams ended, or the deadline passed
  bool wait_for(const std::string& stream, const std::string& text);

  pid_t pid_ = -1;
  int output_fd_ = -1;
  int error_fd_ = -1;
  std::string output_;
  std::string error_;
};

struct Finished {
  int status = 0;
  std::string output;
  std::string error;
};
Finished run_tandem(const std::vector<std::string>& args, ProcessOptions options = {});

// Returns the port in its log, or 0 if it ended without one.
int listening_port(Process& process);

// A ready `tandem serve` on a free port.
struct ReadyServer {
  explicit ReadyServer(std::vector<std::string> args, ProcessOptions options = {});
  Process process;
  int port = 0;  // 0: it did not become ready; see its error output
};

// One HTTP exchange with 127.0.0.1:port on its own connection. Gives the whole answer as text with
// its chunks joined, or an empty text.
class HttpExchange {
 public:
  HttpExchange(int port, const std::string& method, const std::string& path,
               const std::string& body, const std::string& more_headers = {});
  bool read_until(const std::string& text);  // false: the answer ended before
  std::string read_all();

 private:
  bool read_some();

  TestCall call_;
  std::string answer_;
};

}  // namespace tandem
