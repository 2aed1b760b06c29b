#include "engine/constraint/compile_process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/log/log.h"
#include "engine/constraint/grammar_backend.h"

namespace tandem {
namespace {

// A process that does not read for this long is considered stuck.
constexpr timeval kSendTimeout{.tv_sec = 2, .tv_usec = 0};
// The limit on the time from the closing of its channel to the process's exit.
constexpr Duration kEndWait = std::chrono::seconds(1);

}  // namespace

Result<std::unique_ptr<CompileProcess>> CompileProcess::create(std::string program,
                                                               const CompileLimits& limits,
                                                               GrammarBackend& backend) {
  TANDEM_ASSIGN(ProcessWait wait, ProcessWait::create());
  return std::unique_ptr<CompileProcess>(
      new CompileProcess(std::move(program), limits, backend, std::move(wait)));
}

CompileProcess::CompileProcess(std::string program, const CompileLimits& limits,
                               GrammarBackend& backend, ProcessWait wait)
    : program_(std::move(program)), limits_(limits), backend_(&backend), wait_(std::move(wait)) {}

CompileProcess::~CompileProcess() {
  release();
}

void CompileProcess::release() {
  child_.reset();
  if (channel_ >= 0) ::close(channel_);
  channel_ = -1;
  is_ready_ = false;
}

void CompileProcess::cancel() {
  // relaxed: the system calls of wake and wait order it.
  cancelled_.store(true, std::memory_order_relaxed);
  wait_.wake();
}

Status CompileProcess::start() {
  release();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_status("socketpair", errno);
  }
  channel_ = ends[0];
  (void)::setsockopt(channel_, SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  ChildProcessOptions options;
  options.program = program_;
  options.arguments = {program_.empty() ? "tandem" : program_, "constraint-worker", "--memory-mb",
                       std::to_string(limits_.memory_bytes >> 20)};
  options.environment = harmless_environment();
  if (log::format() == log::Format::json)
    options.environment.emplace_back("TANDEM_LOG_FORMAT=json");
  options.input = ends[1];
  Result<ChildProcess> child = ChildProcess::start(options);
  ::close(ends[1]);
  if (!child) return child.status();
  child_.emplace(std::move(*child));
  if (!send(FrameKind::vocabulary, backend_->vocabulary_bytes())) {
    return error(StatusCode::unavailable, "it takes no vocabulary ({})", end());
  }
  return {};
}

void CompileProcess::start_ahead() {
  if (child_ && !child_->has_ended()) return;
  if (const Status started = start(); !started) log::debug("compiling: {}", started.message());
}

std::optional<CompileAnswer> CompileProcess::await_ready(TimePoint deadline) {
  const auto unavailable = [](std::string_view why) {
    return CompileAnswer{
        CompileAnswer::Kind::unavailable,
        fmt::format("the process that compiles constraints does not start: {}", why)};
  };
  if (!child_ || child_->has_ended()) {
    if (const Status started = start(); !started) return unavailable(started.message());
  }
  if (is_ready_) return std::nullopt;
  backend_->prepare();  // in parallel with the same work in the process
  FrameHead head{};
  std::string bytes;
  switch (receive(head, bytes, deadline)) {
    case Received::frame:
      break;
    case Received::ended:
      return unavailable(end());
    case Received::late:
      release();
      return unavailable("not in time");
    case Received::cancelled:
      return CompileAnswer{CompileAnswer::Kind::cancelled};
  }
  is_ready_ = head.kind == FrameKind::ready;
  if (is_ready_) return std::nullopt;
  release();
  return unavailable("it answers what nobody asked");
}

CompileAnswer CompileProcess::compile(const TextConstraint& constraint, TimePoint deadline) {
  using Kind = CompileAnswer::Kind;
  if (auto failure = await_ready(deadline)) return *failure;
  if (!send(FrameKind::job, CompileJob{constraint, limits_.cpu}.to_bytes())) {
    // The process has ended since the last check.
    release();
    if (auto failure = await_ready(deadline)) return *failure;
    if (!send(FrameKind::job, CompileJob{constraint, limits_.cpu}.to_bytes())) {
      return {Kind::unavailable,
              fmt::format("the process that compiles constraints takes none ({})", end())};
    }
  }
  FrameHead head{};
  std::string bytes;
  switch (receive(head, bytes, deadline)) {
    case Received::frame:
      break;
    case Received::ended:
      return ended_over_constraint();
    case Received::late:
      release();
      return {Kind::late};
    case Received::cancelled:
      release();
      return {Kind::cancelled};
  }
  if (head.kind == FrameKind::compiled) return {Kind::compiled, std::move(bytes)};
  if (head.kind == FrameKind::refused) return {Kind::refused, std::move(bytes)};
  release();
  if (head.kind == FrameKind::too_large) return {Kind::exceeded, std::move(bytes)};
  return {Kind::unavailable, "the process that compiles constraints answers what nobody asked"};
}

CompileAnswer CompileProcess::ended_over_constraint() {
  const std::string how = end();
  const bool by_timer = how.starts_with(fmt::format("signal {} ", SIGPROF));
  release();
  if (by_timer) {
    return {CompileAnswer::Kind::exceeded, "the constraint takes too long to compile: simplify it"};
  }
  return {CompileAnswer::Kind::crashed,
          fmt::format("the constraint ended the process that compiles it ({}): simplify it", how)};
}

std::string CompileProcess::end() {
  if (!child_) return "it is gone";
  const TimePoint latest = SteadyClock().now() + kEndWait;
  while (!child_->has_ended() && SteadyClock().now() < latest && !cancelled_) {
    const int descriptor = child_->descriptor();
    wait_.wait({&descriptor, 1},
               descriptor >= 0 ? latest - SteadyClock().now() : std::chrono::milliseconds(1));
  }
  return child_->has_ended() ? child_->end() : "it closed its channel";
}

bool CompileProcess::send(FrameKind kind, std::string_view bytes) {
  const FrameHead head{kind, static_cast<std::uint32_t>(bytes.size())};
  for (std::string_view rest :
       {std::string_view(reinterpret_cast<const char*>(&head), sizeof head), bytes}) {
    while (!rest.empty()) {
      const ssize_t put = ::send(channel_, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return false;
      rest.remove_prefix(static_cast<std::size_t>(put));
    }
  }
  return true;
}

CompileProcess::Received CompileProcess::receive(FrameHead& head, std::string& bytes,
                                                 TimePoint deadline) {
  const Received begun = receive_exactly(reinterpret_cast<char*>(&head), sizeof head, deadline);
  if (begun != Received::frame) return begun;
  if (head.bytes > kMostCompiledBytes) return Received::ended;  // treated as ended
  bytes.resize(head.bytes);
  return receive_exactly(bytes.data(), bytes.size(), deadline);
}

CompileProcess::Received CompileProcess::receive_exactly(char* to, std::size_t bytes,
                                                         TimePoint deadline) {
  while (bytes > 0) {
    const ssize_t got = ::recv(channel_, to, bytes, MSG_DONTWAIT);
    if (got > 0) {
      to += got;
      bytes -= static_cast<std::size_t>(got);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) return Received::ended;
    if (cancelled_.load(std::memory_order_relaxed)) return Received::cancelled;
    const TimePoint now = SteadyClock().now();
    if (now >= deadline) return Received::late;
    wait_.wait({&channel_, 1}, deadline - now);
  }
  return Received::frame;
}

}  // namespace tandem
