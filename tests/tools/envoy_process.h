// A real Envoy, with a file of configs/ as it stands but for its ports.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {

class EnvoyProcess {
 public:
  // The program, from the tests' working directory; empty: it is there, else why the test is
  // skipped.
  static std::string missing();

  // `ports`: what stands in the file, and what is wanted in its place. Clients' and operators' are
  // any free ones. Waits until it serves.
  EnvoyProcess(const std::filesystem::path& config, std::vector<std::pair<int, int>> ports);

  int port() const { return port_; }  // the clients'; 0: it did not start, which log() explains
  std::string log();

 private:
  testing::TempDir folder_;
  std::unique_ptr<Process> process_;
  int port_ = 0;
};

}  // namespace tandem
