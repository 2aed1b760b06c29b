// A wire between two processes that a test can cut: what is sent then arrives when it heals, as
// behind a switch that drops packets.
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
  // Where new connections lead on this machine; 0: they are closed at once. Thread-safe, as all.
  void lead_to(int port) { target_ = port; }
  // No byte passes from now on, in either direction, and new connections hear nothing.
  void cut();
  void heal();

 private:
  struct Wire;
  void accept_all();
  void pump(const std::shared_ptr<Wire>& wire, int from, int to);
  bool may_pass();  // waits for it; false: the end

  int listening_ = -1;
  int port_ = 0;
  std::atomic<int> target_{0};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool cut_ = false;                       // guarded by mutex_, like what follows
  int pumps_ = 0;                          // threads that run
  std::set<std::shared_ptr<Wire>> wires_;  // of them
  std::thread accepts_;
};

}  // namespace tandem
