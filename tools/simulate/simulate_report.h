// The results of a simulation as table rows, as JSON and as a page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/cluster/simulator/simulation.h"
#include "tools/report/html_page.h"

namespace tandem {

struct SimulateReport {
  std::string command;                                          // as typed
  std::string machine;                                          // SimMachine::description
  std::vector<std::pair<std::string, nlohmann::json>> setting;  // (name, value)
  double slo_token_ms = 0;
  double capacity_per_s = 0;
  std::vector<PolicyResult> policies;

  // {command, machine, setting, slo_token_ms, capacity_per_s, policies: [{policy, requests,
  // slo_attainment, user_satisfaction, ttft_attainment, ttft_ms: {mean, p50, p99, cdf: [[value,
  // share]]}, tpot_ms, time_per_token_ms, latency_ms, ..., queue: [[at_s, waiting, longest line of
  // an engine, running, busy engines]]}]}
  nlohmann::ordered_json to_json() const;
  HtmlPage to_html() const;
};

// The table's head, and a row, which is printed as soon as its policy is done.
std::string simulate_table_head();
std::string simulate_table_row(const PolicyResult& result);

}  // namespace tandem
