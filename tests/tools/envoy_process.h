// A real Envoy with a file of configs/, in which only the ports are replaced.
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
  // Looks for the program from the tests' working directory. Returns an empty text, or the reason
  // to skip the test.
  static std::string missing();

  // `ports`: each port in the file with its replacement. The ports of clients and operators are
  // replaced by free ones. Waits until it serves.
  EnvoyProcess(const std::filesystem::path& config, std::vector<std::pair<int, int>> ports);

  int port() const { return port_; }  // of the clients; 0: it did not start, see log()
  std::string log();

 private:
  testing::TempDir folder_;
  std::unique_ptr<Process> process_;
  int port_ = 0;
};

}  // namespace tandem
