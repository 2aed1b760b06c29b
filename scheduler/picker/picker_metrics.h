// What the picker counts, as Prometheus reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tandem {

// Thread-safe.
class PickerMetrics {
 public:
  PickerMetrics();
  ~PickerMetrics();

  // `engine`: the endpoint; empty: refused, with this status.
  void count_pick(const std::string& engine, int status);
  void count_failover(const std::string& engine);  // it was the first choice, another answered
  void observe_decision(double seconds);
  void set_running(std::int64_t requests);
  void set_engines(std::int64_t up, std::int64_t all);

  std::string text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace tandem
