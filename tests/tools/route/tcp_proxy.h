// A connection between two processes that a test can cut: data sent meanwhile arrives after it is
// healed, as behind a switch that drops packets.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace tandem {

class TcpProxy {
 public:
  TcpProxy();  // listens on a free port of 127.0.0.1
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const { return port_; }
  // Sets the port for new connections; 0: they are closed. Thread-safe, like all functions here.
  void lead_to(int port) { target_ = port; }
  // Stops all bytes in both directions, and new connections get no answer.
  void cut();
  void heal();

 private:
  struct Wire;
  void accept_all();
  void pump(const std::shared_ptr<Wire>& wire, int from, int to);
  bool may_pass();  // waits while it is cut; false: the end

  int listening_ = -1;
  int port_ = 0;
  std::atomic<int> target_{0};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool cut_ = false;                       // guarded by mutex_, like what follows
  int pumps_ = 0;                          // running threads
  std::set<std::shared_ptr<Wire>> wires_;  // their connections
  std::thread accepts_;
};

}  // namespace tandem
