// Measures which other processes used the processors during a measurement.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tandem {

// For one thread. Data that /proc does not provide, for example in containers that hide it, counts
// as zero.
class BusyOthers {
 public:
  struct Paths {
    std::filesystem::path proc = "/proc";
    std::filesystem::path cgroups = "/sys/fs/cgroup";
  };
  // Watches these CPUs, on which this process computes, from now on; none: all CPUs of the machine.
  // The paths are for tests.
  BusyOthers(const Clock& clock, std::vector<int> cpus, Paths paths);

  // Adds the CPU time used since the last call. Call it regularly, because the time of a process
  // that ends between calls is not assigned to it.
  void look();

  // Summary of all calls: "others had 3.2 of the 24.0 s of these CPUs: cc1plus (9 processes) 2.1 s,
  // python3 (process 71) 0.4 s; the host took 0.5 s away for other guests". Names at most three, by
  // the time used on any CPU; empty: no process had more than one percent.
  std::string text() const;
  // The share of these CPUs' time that others had, including the host and a quota: 0 to 1.
  double share() const;

 private:
  struct Used {
    std::string name;
    double seconds = 0;
  };
  struct Seen {
    double busy_s = 0, stolen_s = 0, throttled_s = 0;
    int cpus = 0;  // number of CPUs in these sums
    std::map<std::int64_t, Used> processes;
  };
  struct Group {  // processes of one name
    double seconds = 0;
    std::set<std::int64_t> ids;
  };
  Seen read() const;
  double read_throttled() const;

  double all_s() const;  // time of these CPUs since the start

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
