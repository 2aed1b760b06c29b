// A program under test as a real process: arguments, variables, standard streams, signals.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/base/http/test_call.h"

namespace tandem {

// The path of this build's `tandem`, or what TANDEM_TEST_PROGRAM says.
std::string program_under_test();

struct ProcessOptions {
  std::map<std::string, std::string> environment;  // added; TANDEM_* of ours are taken out first
  std::string input;                               // standard input, less than 60 kB
  std::string folder;                              // working directory; empty: ours
  std::string output_file;  // takes standard output instead of output(); it must exist
  std::string program;      // another one than program_under_test(); its path
};

class Process {
 public:
  // Starts program_under_test(). Aborts the test program if that is impossible.
  explicit Process(const std::vector<std::string>& args, ProcessOptions options = {});
  ~Process();  // kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads until `text` has appeared on the stream; false: it ended, or took over a minute.
  bool wait_for_output(const std::string& text);
  bool wait_for_error(const std::string& text);
  // The number behind `before` on that stream, once all of it has come; 0: as above.
  int wait_for_number(const std::string& before);
  // What is there already, without waiting: a pipe that nobody empties stops who writes to it.
  void read_what_is_there();
  pid_t pid() const { return pid_; }
  void send_signal(int number) const;
  // Reads to the end. The exit status; 128 + signal when one killed it; -1: over two minutes (it
  // is killed then).
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

// Where it listens, once it says so; 0: it did not.
int listening_port(Process& process);

// `tandem serve` on port 0, ready to answer.
struct ReadyServer {
  explicit ReadyServer(std::vector<std::string> args, ProcessOptions options = {});
  Process process;
  int port = 0;  // 0: it did not become ready; its error output says why
};

// One HTTP exchange with 127.0.0.1:port, connection closed after it; the whole answer as text, its
// chunks joined, or empty.
class HttpExchange {
 public:
  HttpExchange(int port, const std::string& method, const std::string& path,
               const std::string& body, const std::string& more_headers = {});
  bool read_until(const std::string& text);  // false: it ended before
  std::string read_all();

 private:
  bool read_some();

  TestCall call_;
  std::string answer_;
};

}  // namespace tandem
