#include "tools/bench/serve/serve_progress.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace tandem {
namespace {

constexpr double kLogEveryS = 10;

}  // namespace

std::string progress_text(const LoadState& state, std::int64_t all) {
  const double elapsed_s = state.elapsed_s > 0 ? state.elapsed_s : 1;
  std::string text = fmt::format(
      "{:.1f} s  sent {} of {}  running {}  answered {}  failed {}  {:.1f}/s  {:.0f} tokens/s",
      state.elapsed_s, state.sent, all, state.running, state.completed, state.failed,
      static_cast<double>(state.completed) / elapsed_s,
      static_cast<double>(state.output_tokens) / elapsed_s);
  if (state.completed > 0) text += fmt::format("  ttft {:.0f} ms", state.last_ttft_ms);
  return text;
}

ServeProgress::ServeProgress(std::string what, std::int64_t all, bool terminal)
    : what_(std::move(what)), all_(all), terminal_(terminal) {}

ServeProgress::~ServeProgress() {
  if (drawn_ && terminal_) fmt::print(stderr, "\r\x1b[K");
}

void ServeProgress::update(const LoadState& state) {
  if (!terminal_ && state.elapsed_s - last_s_ < kLogEveryS) return;
  last_s_ = state.elapsed_s;
  drawn_ = true;
  fmt::print(stderr, "{}{}{}{}", terminal_ ? "\r" : "", what_, progress_text(state, all_),
             terminal_ ? "\x1b[K" : "\n");
}

}  // namespace tandem
