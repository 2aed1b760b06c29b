// Stands in for `tandem constraint-worker`: the same process in a program that is built faster.
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "engine/constraint/compile_worker.h"

int main(int argc, char** argv) {
  if (argc != 4 || std::string_view(argv[1]) != "constraint-worker") return 64;
  const auto memory_mb = std::strtoul(argv[3], nullptr, 10);
  return tandem::run_compile_worker(STDIN_FILENO, memory_mb << 20).ok() ? 0 : 1;
}
