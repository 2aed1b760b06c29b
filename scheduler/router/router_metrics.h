// What the router counts, as Prometheus reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tandem {

// Thread-safe.
class RouterMetrics {
 public:
  RouterMetrics();
  ~RouterMetrics();

  void count_call(std::string_view path, std::string_view method, int status);
  // `engine`: the address; empty: it came to none. `outcome`: served, refused, failed, gone.
  void count_request(const std::string& engine, std::string_view outcome);
  // An engine failed a request, which goes on elsewhere. `continued`: the client has read of it.
  void count_failover(const std::string& engine, bool continued);
  // A stream was moved to free that engine. `cold`: its adapter was not on the other's device.
  void count_move(const std::string& engine, bool cold);
  // And its client was told nothing for so long.
  void observe_move(double seconds);
  void set_resting(std::int64_t engines);
  void observe_decision(double seconds);
  void set_waiting(std::int64_t requests);
  void set_running(std::int64_t requests);
  void set_engines(std::int64_t up, std::int64_t all);

  std::string text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace tandem
