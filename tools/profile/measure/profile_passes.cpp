#include "tools/profile/measure/profile_passes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/log/log.h"

namespace tandem {
namespace {

// A progress line that is redrawn; shows nothing if there is no terminal.
class PassLine {
 public:
  explicit PassLine(bool shown) : shown_(shown) {}
  ~PassLine() { write_text(drawn_ ? "\r\x1b[K" : ""); }
  PassLine(const PassLine&) = delete;
  PassLine& operator=(const PassLine&) = delete;

  void draw(const std::string& text) {
    if (!shown_) return;
    drawn_ = true;
    write_text("\r" + text + "\x1b[K");
  }

 private:
  static void write_text(std::string_view text) {
    if (text.empty()) return;
    // A failed write is ignored, because it is no reason to stop.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }

  const bool shown_;
  bool drawn_ = false;
};

}  // namespace

Result<std::vector<std::string>> measure_in_passes(const std::vector<NamedStage>& stages,
                                                   const PassLimits& limits, const Clock& clock,
                                                   bool terminal, BusyOthers& others,
                                                   Profile& profile) {
  const TimePoint start = clock.now();
  const auto passed = [&] { return seconds_between(start, clock.now()); };
  PassLine line(terminal);
  std::string widest;  // of the figures so far
  const auto run_pass = [&](std::size_t number) -> Result<PassTables> {
    PassTables tables;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (number == 0) {
        log::info("measuring {} ({} of {}, {:.0f} s so far)", stages[i].what, i + 1, stages.size(),
                  passed());
      } else {
        line.draw(fmt::format("pass {}, {:.0f} s of {:.0f} at most{}: {}", number, passed(),
                              std::max(limits.seconds, passed()), widest, stages[i].what));
      }
      const Status status = stages[i].stage->measure(tables);
      if (!status) return status.with_context(fmt::format("measuring {}", stages[i].what));
    }
    return tables;
  };
  TANDEM_TRY(run_pass(0).status());
  std::vector<PassTables> passes;
  std::vector<std::string> notes;
  while (passes.size() < limits.most) {
    if (passes.size() >= PassLimits::kFewest && passed() >= limits.seconds) break;
    TANDEM_ASSIGN(passes.emplace_back(), run_pass(passes.size() + 1));
    others.look();
    if (passes.size() < limits.least) continue;
    TANDEM_ASSIGN(notes, judge_passes(passes, others.share(), profile));
    if (widest_spread(profile) <= limits.narrow) break;
    widest = fmt::format(", the widest figure +-{:.0f} %", 100 * widest_spread(profile));
  }
  if (passes.size() < limits.least) {
    TANDEM_ASSIGN(notes, judge_passes(passes, others.share(), profile));
  }
  profile.others = others.text();
  log::info("{} passes in {:.0f} s", passes.size(), passed());
  return notes;
}

}  // namespace tandem
