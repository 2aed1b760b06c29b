// An engine that only has a pool of workers: fake_engine WORKER_PROGRAM FILE. Writes the pids of
// its workers, which never end by themselves, to FILE, and waits to be killed.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cpu_lora/worker_pool/worker_pool.h"

int main(int argc, char** argv) {
  using namespace tandem;
  if (argc != 3) return 64;
  auto mailbox = Mailbox::create({DType::f32, 2, 8, 8, 8, 8}, -1);
  if (!mailbox) return 1;
  WorkerPoolOptions options;
  options.groups = {{.mailbox = &*mailbox, .arena = "deaf", .node = -1, .cpus = {0, 1}}};
  options.program = argv[1];
  options.heartbeat_ms = 60000;
  auto pool = WorkerPool::start(options);
  if (!pool || !(*pool)->wait_until_live(60)) return 2;
  const std::string file = argv[2];
  {
    std::ofstream pids(file + ".new");
    for (const WorkerStatus& worker : (*pool)->status()) pids << worker.pid << '\n';
  }
  std::filesystem::rename(file + ".new", file);
  while (true) ::pause();
}
