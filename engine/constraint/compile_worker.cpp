#include "engine/constraint/compile_worker.h"

#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "cpu_lora/worker_process/confine.h"
#include "engine/constraint/byte_stream.h"
#include "engine/constraint/compile_frame.h"
#include "engine/constraint/grammar_backend.h"
#include "engine/constraint/grammar_codec.h"

namespace tandem {
namespace {

// Returns false if the other end is closed.
Result<bool> read_all(int channel, char* to, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::read(channel, to, bytes);
    if (got == 0) return false;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_status("reading a job", errno);
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

Status write_all(int channel, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(channel, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno_status("answering a job", errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

// Returns not_found if the other end is closed.
Result<std::string> read_frame(int channel, FrameKind kind, std::size_t most) {
  FrameHead head{};
  TANDEM_ASSIGN(bool open, read_all(channel, reinterpret_cast<char*>(&head), sizeof head));
  if (open && (head.kind != kind || head.bytes > most)) {
    return invalid("a frame of kind {} with {} bytes", static_cast<unsigned>(head.kind),
                   head.bytes);
  }
  std::string bytes(open ? head.bytes : 0, '\0');
  if (open) {
    TANDEM_ASSIGN(open, read_all(channel, bytes.data(), bytes.size()));
  }
  if (!open) return error(StatusCode::not_found, "the engine is gone");
  return bytes;
}

Status write_frame(int channel, FrameKind kind, std::string_view bytes) {
  const FrameHead head{kind, static_cast<std::uint32_t>(bytes.size())};
  TANDEM_TRY(write_all(channel, {reinterpret_cast<const char*>(&head), sizeof head}));
  return write_all(channel, bytes);
}

// Arms a timer that ends the process by SIGPROF after this much more processor time; zero disarms
// it.
Status bound_cpu(Duration most) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(most).count();
  itimerval timer{};
  timer.it_value.tv_sec = us / 1'000'000;
  timer.it_value.tv_usec = us % 1'000'000;
  if (::setitimer(ITIMER_PROF, &timer, nullptr) == 0) return {};
  return errno_status("setitimer", errno);
}

// Makes the kernel's OOM killer choose this process before the engine. Best effort.
void offer_to_be_killed_first() {
  std::ofstream file("/proc/self/oom_score_adj");
  file << 1000 << std::flush;
}

struct Answer {
  FrameKind kind;
  std::string text;
};

Answer compile(GrammarBackend& backend, const TextConstraint& constraint) {
  constexpr const char* kTooMuchMemory =
      "the constraint takes too much memory to compile: simplify it";
  try {
    const auto compiled = backend.compile(constraint);
    if (compiled) {
      std::string encoded = encode_grammar((*compiled)->grammar());
      if (encoded.size() <= kMostCompiledBytes) return {FrameKind::compiled, std::move(encoded)};
      return {FrameKind::too_large,
              fmt::format("the constraint compiles to {}, more than the {} "
                          "allowed: simplify it",
                          size_text(encoded.size()), size_text(kMostCompiledBytes))};
    }
    if (compiled.status().code() != StatusCode::resource_exhausted) {
      return {FrameKind::refused, compiled.status().message()};
    }
  } catch (const std::bad_alloc&) {  // no memory for a copy of the result
  }
  return {FrameKind::too_large, kTooMuchMemory};
}

}  // namespace

std::string CompileJob::to_bytes() const {
  ByteWriter out;
  out.plain(constraint.kind);
  out.text(constraint.text);
  out.plain(static_cast<std::int64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(cpu).count()));
  return out.take();
}

Result<CompileJob> CompileJob::from_bytes(std::string_view bytes) {
  ByteReader in(bytes);
  CompileJob job;
  job.constraint.kind = in.plain<TextConstraint::Kind>();
  job.constraint.text = in.text();
  job.cpu = std::chrono::microseconds(in.plain<std::int64_t>());
  if (!in.is_at_end() || job.constraint.kind > TextConstraint::Kind::structural_tag) {
    return invalid("these {} bytes are no job", bytes.size());
  }
  return job;
}

Status run_compile_worker(int channel, std::size_t memory_bytes) {
  offer_to_be_killed_first();
  TANDEM_TRY(
      confine_this_process({.channel = channel, .cpu_timer = true, .memory_bytes = memory_bytes}));
  auto told = read_frame(channel, FrameKind::vocabulary, kMostVocabularyBytes);
  if (!told && told.status().code() == StatusCode::not_found) return {};
  if (!told) return told.status();
  TANDEM_ASSIGN(GrammarVocabulary vocabulary, GrammarVocabulary::from_bytes(*told));
  told->clear();
  told->shrink_to_fit();
  GrammarBackend backend(std::move(vocabulary));
  backend.prepare();
  TANDEM_TRY(write_frame(channel, FrameKind::ready, {}));
  while (true) {
    const auto bytes = read_frame(channel, FrameKind::job, kMostCompiledBytes);
    if (!bytes && bytes.status().code() == StatusCode::not_found) return {};
    if (!bytes) return bytes.status();
    TANDEM_ASSIGN(const CompileJob job, CompileJob::from_bytes(*bytes));
    TANDEM_TRY(bound_cpu(job.cpu));
    const Answer answer = compile(backend, job.constraint);
    TANDEM_TRY(bound_cpu({}));
    TANDEM_TRY(write_frame(channel, answer.kind, answer.text));
    if (answer.kind == FrameKind::too_large) return {};
  }
}

}  // namespace tandem
