#include "tools/profile/measure/busy_others.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/parse_number.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNamed = 3;
constexpr double kLeastShare = 0.01;  // of the elapsed time

double ticks_per_second() {
  const long ticks = sysconf(_SC_CLK_TCK);
  return ticks > 0 ? static_cast<double>(ticks) : 100;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A process chooses its own name, so control characters are replaced before it is shown.
std::string shown_name(std::string_view name) {
  std::string shown(name);
  std::ranges::replace_if(
      shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown.empty() ? "?" : shown;
}

}  // namespace

BusyOthers::BusyOthers(const Clock& clock, std::vector<int> cpus, Paths paths)
    : clock_(clock),
      cpus_(std::move(cpus)),
      paths_(std::move(paths)),
      start_(clock.now()),
      last_look_(start_) {
  last_ = read();
}

BusyOthers::Seen BusyOthers::read() const {
  const double ticks = ticks_per_second();
  Seen seen;
  // "cpu0 user nice system idle iowait irq softirq steal ..."; the line for all CPUs comes first.
  std::ifstream stat(paths_.proc / "stat");
  for (std::string line; std::getline(stat, line) && line.starts_with("cpu");) {
    std::istringstream fields(line.substr(3));
    int cpu = -1;
    if (line[3] == ' ') continue;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft = 0, stolen = 0;
    fields >> cpu >> user >> nice >> system >> idle >> waiting >> irq >> soft >> stolen;
    if (!cpus_.empty() && std::ranges::count(cpus_, cpu) == 0) continue;
    seen.busy_s += (user + nice + system + irq + soft) / ticks;
    seen.stolen_s += stolen / ticks;
    ++seen.cpus;
  }
  std::error_code failure;
  for (fs::directory_iterator at(paths_.proc, failure), end; !failure && at != end;
       at.increment(failure)) {
    const auto id = parse_number<std::int64_t>(at->path().filename().string());
    if (!id) continue;
    // "pid (name) state ppid ...": the name may contain spaces and brackets. Fields 14 and 15 are
    // the times in user and kernel mode, the 11th and 12th after the state.
    const std::string line = first_line(at->path() / "stat");
    const std::size_t open = line.find('(');
    const std::size_t close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) continue;
    std::istringstream fields(line.substr(close + 1));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    double user = 0, kernel = 0;
    if (!(fields >> user >> kernel)) continue;
    seen.processes[*id] = {shown_name(std::string_view(line).substr(open + 1, close - open - 1)),
                           (user + kernel) / ticks};
  }
  seen.throttled_s = read_throttled();
  return seen;
}

// Throttled time of the process's own cgroup, or, if it is not found, of the root that a container
// sees.
double BusyOthers::read_throttled() const {
  std::vector<fs::path> candidates;
  std::ifstream groups(paths_.proc / "self" / "cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) candidates.push_back(paths_.cgroups / line.substr(4));
  }
  candidates.push_back(paths_.cgroups);
  for (const fs::path& group : candidates) {
    std::ifstream file(group / "cpu.stat");
    std::string key;
    for (double value = 0; file >> key >> value;) {
      if (key == "throttled_usec") return value / 1e6;
    }
  }
  return 0;
}

void BusyOthers::look() {
  Seen now = read();
  double own = 0;
  for (const auto& [id, used] : now.processes) {
    const auto before = last_.processes.find(id);
    // The id may belong to a new process by now; then it has used less time than before.
    const bool is_known = before != last_.processes.end() && before->second.seconds <= used.seconds;
    const double since = used.seconds - (is_known ? before->second.seconds : 0);
    if (id == getpid()) {
      own = since;
    } else if (since > 0) {
      Group& group = groups_[used.name];
      group.seconds += since;
      group.ids.insert(id);
    }
  }
  others_s_ += std::max(0.0, now.busy_s - last_.busy_s - own);
  stolen_s_ += std::max(0.0, now.stolen_s - last_.stolen_s);
  throttled_s_ += std::max(0.0, now.throttled_s - last_.throttled_s);
  last_ = std::move(now);
  last_look_ = clock_.now();
}

double BusyOthers::all_s() const {
  return seconds_between(start_, last_look_) * std::max(1, last_.cpus);
}

double BusyOthers::share() const {
  const double all = all_s();
  if (all <= 0) return 0;
  return std::min(1.0, (others_s_ + stolen_s_ + throttled_s_) / all);
}

std::string BusyOthers::text() const {
  const double least = kLeastShare * all_s();
  std::vector<std::string> parts;
  if (others_s_ > least) {
    std::vector<std::pair<std::string, const Group*>> busiest;
    for (const auto& [name, group] : groups_) {
      if (group.seconds > least) busiest.emplace_back(name, &group);
    }
    std::ranges::stable_sort(busiest, std::greater<>(),
                             [](const auto& one) { return one.second->seconds; });
    if (busiest.size() > kMostNamed) busiest.resize(kMostNamed);
    std::vector<std::string> names;
    for (const auto& [name, group] : busiest) {
      const std::string which = group->ids.size() == 1
                                    ? fmt::format("process {}", *group->ids.begin())
                                    : fmt::format("{} processes", group->ids.size());
      names.push_back(fmt::format("{} ({}) {:.1f} s", name, which, group->seconds));
    }
    parts.push_back(fmt::format("others had {:.1f} of the {:.1f} s of these CPUs{}", others_s_,
                                all_s(),
                                names.empty() ? ", and cannot be seen from here"
                                              : fmt::format(": {}", fmt::join(names, ", "))));
  }
  if (stolen_s_ > least) {
    parts.push_back(fmt::format("the host took {:.1f} s away for other guests", stolen_s_));
  }
  if (throttled_s_ > least) {
    parts.push_back(fmt::format("a CPU quota stopped this process for {:.1f} s", throttled_s_));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace tandem
