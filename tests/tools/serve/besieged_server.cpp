#include "tests/tools/serve/besieged_server.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/threads/thread_cpus.h"
#include "tests/tools/serve/worker_faults.h"

namespace tandem {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kLong(60);

WorkerCpus worker_cpus(int most) {
  std::vector<int> last = cpus_of_thread();
  std::ranges::reverse(last);
  last.resize(std::min(last.size(), static_cast<std::size_t>(most)));
  return {.list = fmt::format("{}", fmt::join(last, ",")), .count = static_cast<int>(last.size())};
}

std::vector<std::string> serve_with_workers(const ServeChoices& choices) {
  const bool cached = choices.mode == "cached";
  std::vector<std::string> words = {"serve",     "--model",  "data/demo-llama", "--port",
                                    "0",         "--no-pin", "--dtype",         "f32",
                                    "--pool-gb", "0.25"};
  const auto add = [&](const char* flag, const std::string& value) {
    words.emplace_back(flag);
    words.push_back(value);
  };
  add("--adapters", choices.adapters);
  if (!choices.adapter_root.empty()) add("--adapter-root", choices.adapter_root);
  add("--device", choices.device);
  if (choices.devices > 1) add("--tensor-parallel", std::to_string(choices.devices));
  add("--adapter-mode", choices.mode);
  add("--worker-cpus", worker_cpus(choices.max_workers).list);
  add("--max-device-adapters", cached ? "8" : "2");
  add("--link-gbps", cached ? "0" : choices.link_gbps);
  add("--handoff-deadline-ms", choices.deadline_ms);
  return words;
}

void expect_end(ReadyServer& server, int signal) {
  const pid_t pid = server.process.pid();
  const auto begin = steady_clock::now();
  server.process.send_signal(signal);
  EXPECT_EQ(server.process.wait(), 0) << server.process.error();
  EXPECT_LT(steady_clock::now() - begin, kLong);
  EXPECT_TRUE(eventually([&] { return workers_of(pid).empty(); }));
  EXPECT_THAT(regions_of(pid), ::testing::IsEmpty());
}

}  // namespace tandem
