#include "tests/tools/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/check.h"

extern char** environ;  // NOLINT: no POSIX header declares it

namespace tandem {
namespace {

std::vector<std::string> variables(const std::map<std::string, std::string>& added) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!text.starts_with("TANDEM_")) out.push_back(text);
  }
  // Tests run in parallel, so servers ignore the cores that others claim, unless a flag says
  // otherwise.
  out.emplace_back("TANDEM_CLAIM_CORES=false");
  for (const auto& [name, value] : added) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

struct Pipe {
  Pipe() { TANDEM_CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe2: {}", errno); }
  int ends[2] = {-1, -1};
};

void drain(int& fd, std::string& into) {
  std::array<char, 65536> chunk{};
  const ssize_t count = read(fd, chunk.data(), chunk.size());
  if (count > 0) {
    into.append(chunk.data(), static_cast<std::size_t>(count));
  } else {
    close(fd);
    fd = -1;
  }
}

}  // namespace

std::string program_under_test() {
  const char* const given = std::getenv("TANDEM_TEST_PROGRAM");
  if (given != nullptr) return given;
  const auto ours = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (ours / TANDEM_PROGRAM).lexically_normal();
}

Process::Process(const std::vector<std::string>& args, ProcessOptions options) {
  Pipe in;
  Pipe out;
  Pipe err;
  std::vector<std::string> words = {options.program.empty() ? program_under_test()
                                                            : options.program};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<std::string> environment = variables(options.environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  if (!options.output_file.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, options.output_file.c_str(), O_WRONLY,
                                     0);
  }
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
  if (!options.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
  }
  const int failure = posix_spawn(&pid_, words.front().c_str(), &actions, nullptr,
                                  pointers(words).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  TANDEM_CHECK(failure == 0, "posix_spawn {}: {}", words.front(), failure);
  close(in.ends[0]);
  close(out.ends[1]);
  close(err.ends[1]);
  // The input fits into the pipe, so this cannot block.
  TANDEM_CHECK(write(in.ends[1], options.input.data(), options.input.size()) ==
                   static_cast<ssize_t>(options.input.size()),
               "writing standard input: {}", errno);
  close(in.ends[1]);
  output_fd_ = out.ends[0];
  error_fd_ = err.ends[0];
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (output_fd_ >= 0) close(output_fd_);
  if (error_fd_ >= 0) close(error_fd_);
}

bool Process::read_some(Deadline deadline) {
  if (output_fd_ < 0 && error_fd_ < 0) return false;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0) return false;
  // poll() ignores negative descriptors.
  pollfd fds[2] = {{output_fd_, POLLIN, 0}, {error_fd_, POLLIN, 0}};
  if (poll(fds, 2, static_cast<int>(left.count())) <= 0) return errno == EINTR;
  if (fds[0].revents != 0) drain(output_fd_, output_);
  if (fds[1].revents != 0) drain(error_fd_, error_);
  return true;
}

bool Process::wait_for(const std::string& stream, const std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (stream.find(text) == std::string::npos) {
    if (!read_some(deadline)) return false;
  }
  return true;
}

bool Process::wait_for_output(const std::string& text) {
  return wait_for(output_, text);
}
bool Process::wait_for_error(const std::string& text) {
  return wait_for(error_, text);
}

int Process::wait_for_number(const std::string& before) {
  if (!wait_for(error_, before)) return 0;
  const std::size_t digits = error_.find(before) + before.size();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (error_.find_first_not_of("0123456789", digits) == std::string::npos) {
    if (!read_some(deadline)) return 0;
  }
  int number = 0;
  std::from_chars(error_.data() + digits, error_.data() + error_.size(), number);
  return number;
}

int listening_port(Process& process) {
  return process.wait_for_number("listening on http://127.0.0.1:");
}

void Process::read_what_is_there() {
  pollfd fds[2] = {{output_fd_, POLLIN, 0}, {error_fd_, POLLIN, 0}};
  while (poll(fds, 2, 0) > 0) {
    if (fds[0].revents != 0) drain(output_fd_, output_);
    if (fds[1].revents != 0) drain(error_fd_, error_);
    fds[0] = {output_fd_, POLLIN, 0};
    fds[1] = {error_fd_, POLLIN, 0};
  }
}

void Process::send_signal(int number) const {
  TANDEM_CHECK(kill(pid_, number) == 0, "kill: {}", errno);
}

int Process::wait() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (read_some(deadline)) {
  }
  const bool late = output_fd_ >= 0 || error_fd_ >= 0;
  if (late) kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  if (late) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Finished run_tandem(const std::vector<std::string>& args, ProcessOptions options) {
  Process process(args, std::move(options));
  const int status = process.wait();
  return {status, process.output(), process.error()};
}

ReadyServer::ReadyServer(std::vector<std::string> args, ProcessOptions options)
    : process(args, std::move(options)) {
  if (!process.wait_for_error("ready: ")) return;
  port = listening_port(process);
}

HttpExchange::HttpExchange(int port, const std::string& method, const std::string& path,
                           const std::string& body, const std::string& more_headers)
    : call_(port, method, path, body, "Connection: close\r\n" + more_headers) {}

bool HttpExchange::read_some() {
  if (answer_.empty()) {
    const ClientResponse head = call_.receive_head();
    if (head.status == 0) return false;
    answer_ = fmt::format("HTTP/1.1 {}\r\n", head.status);
    for (const auto& [name, value] : head.headers) answer_ += name + ": " + value + "\r\n";
    answer_ += "\r\n";
    return true;
  }
  const std::string chunk = call_.next_chunk();
  answer_ += chunk;
  return !chunk.empty();
}

bool HttpExchange::read_until(const std::string& text) {
  while (answer_.find(text) == std::string::npos) {
    if (!read_some()) return answer_.find(text) != std::string::npos;
  }
  return true;
}

std::string HttpExchange::read_all() {
  while (read_some()) {
  }
  return answer_;
}

}  // namespace tandem
