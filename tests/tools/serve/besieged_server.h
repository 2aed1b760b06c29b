// Helpers for tests with faults in a real server, its CPU workers and its clients.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/crowd.h"
#include "tests/tools/process.h"

namespace tandem {

// The last cpus that this process may use, at most `most`, in the format of `tandem serve`.
struct WorkerCpus {
  std::string list;
  int count = 0;
};
WorkerCpus worker_cpus(int most);

struct ServeChoices {
  std::string mode;  // adapter mode; cached: all adapters are on the device
  std::filesystem::path adapters = "data/demo-llama/adapters";
  std::filesystem::path adapter_root = {};  // empty: none
  std::string device = "host";
  int devices = 1;              // number of devices that share the model
  std::string link_gbps = "0";  // "0": not throttled; for modes that load
  std::string deadline_ms = "500";
  int max_workers = 2;
};
// Arguments of `tandem serve` for the demo model with CPU workers. It uses f32, because otherwise a
// near-tie would depend on the batch.
std::vector<std::string> serve_with_workers(const ServeChoices& choices);

// Expects that this signal ends the server in time, with status 0, and that nothing of it is left.
void expect_end(ReadyServer& server, int signal);

}  // namespace tandem
