// What the tests share that keep a real server, its CPU workers and its clients in trouble.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/crowd.h"
#include "tests/tools/process.h"

namespace tandem {

// The last cpus that this process may use, `most` of them, as `tandem serve` takes them.
struct WorkerCpus {
  std::string list;
  int count = 0;
};
WorkerCpus worker_cpus(int most);

struct ServeChoices {
  std::string mode;  // of adapters; cached: all of them on the device
  std::filesystem::path adapters = "data/demo-llama/adapters";
  std::filesystem::path adapter_root = {};  // empty: none
  std::string device = "host";
  int devices = 1;              // that share the model
  std::string link_gbps = "0";  // "0": as fast as it is; for modes that load
  std::string deadline_ms = "500";
  int max_workers = 2;
};
// `tandem serve` of the demo model with CPU workers. In f32, or a near-tie would fall as the batch
// wants it.
std::vector<std::string> serve_with_workers(const ServeChoices& choices);

// Ends by this signal, well and in time, and nothing of it is left.
void expect_end(ReadyServer& server, int signal);

}  // namespace tandem
