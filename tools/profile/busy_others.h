// Who else had the processors while something was measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tandem {

// One thread. What /proc does not tell, as in containers that hide it, counts as nothing.
class BusyOthers {
 public:
  struct Paths {
    std::filesystem::path proc = "/proc";
    std::filesystem::path cgroups = "/sys/fs/cgroup";
  };
  // Watches these CPUs from now on, those that this process computes on; none: all of the machine.
  // The paths are for tests.
  BusyOthers(const Clock& clock, std::vector<int> cpus, Paths paths);

  // Adds what was used since the last look. To be called now and then, as what a process used that
  // is gone by then is nobody's.
  void look();

  // Of all looks: "others had 3.2 of the 24.0 s of these CPUs: cc1plus (9 processes) 2.1 s, python3
  // (process 71) 0.4 s; the host took 0.5 s away for other guests". Names three at most, of those
  // that were busiest on any CPU; empty: nobody had more than a hundredth.
  std::string text() const;
  // How much of these CPUs' time others had, the host and a quota among them: 0 to 1.
  double share() const;

 private:
  struct Used {
    std::string name;
    double seconds = 0;
  };
  struct Seen {
    double busy_s = 0, stolen_s = 0, throttled_s = 0;
    int cpus = 0;  // that these are of
    std::map<std::int64_t, Used> processes;
  };
  struct Group {  // processes of one name
    double seconds = 0;
    std::set<std::int64_t> ids;
  };
  Seen read() const;
  double read_throttled() const;

  double all_s() const;  // of these CPUs since the start

  const Clock& clock_;
  const std::vector<int> cpus_;
  const Paths paths_;
  const TimePoint start_;
  TimePoint last_look_;
  Seen last_;
  double others_s_ = 0, stolen_s_ = 0, throttled_s_ = 0;
  std::map<std::string, Group> groups_;
};

}  // namespace tandem
