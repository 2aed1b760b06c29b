// A cluster of real processes for tests with faults: engines on connections that can be cut, and
// routers, joined by a registry.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/tools/process.h"
#include "tests/tools/route/tcp_proxy.h"

namespace tandem {

class Fleet {
 public:
  // `heartbeat_s`: silence after which routers set an engine aside.
  Fleet(std::string registry_url, double heartbeat_s);

  // Both return at once; whole() tells when they serve. The index is the next one or that of a
  // killed process.
  void start_engine(std::size_t i);
  void start_router(std::size_t i);
  void kill_engine(std::size_t i) { end(engines_[i].process); }  // SIGKILL
  void kill_router(std::size_t i) { end(routers_[i].process); }

  Process& engine(std::size_t i) { return *engines_[i].process; }
  TcpProxy& wire(std::size_t i) { return *engines_[i].wire; }
  int engine_port(std::size_t i) const { return engines_[i].port; }  // 0: not known yet
  Process& router(std::size_t i) { return *routers_[i].process; }
  std::vector<int> router_ports() const;  // they never change

  // Reads the logs; true if every running router sees this number of accepting engines.
  bool whole(std::size_t engines);
  void read_logs();
  std::string logs();  // the end of each log

 private:
  struct Engine {
    std::unique_ptr<TcpProxy> wire;
    std::unique_ptr<Process> process;
    int port = 0;
  };
  struct Router {
    int port = 0;
    std::unique_ptr<Process> process;
  };
  static void end(std::unique_ptr<Process>& process);

  const std::string registry_url_;
  const std::string heartbeat_s_;
  std::vector<Engine> engines_;
  std::vector<Router> routers_;
};

}  // namespace tandem
