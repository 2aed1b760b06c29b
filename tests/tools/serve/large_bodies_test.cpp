// A real server gets bodies whose JSON needs many times their bytes: probes are answered meanwhile,
// and the memory is released afterwards.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

// Resident memory of a process, in MB.
std::size_t resident_mb(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/statm", process));
  std::size_t pages = 0;
  file >> pages >> pages;
  return pages * 4096 >> 20;
}

std::string body_of(const std::string& value) {
  constexpr std::size_t kBytes = (8U << 20) - 512;  // just below the default max_body_mb
  std::string body = R"({"prompt":"a","max_tokens":1,"x":[)";
  while (body.size() + value.size() < kBytes) body += value;
  return body + "0]}";
}

TEST(LargeBodies, NeitherHoldUpProbesNorKeepMemory) {
  ReadyServer server({"serve", "--model", "data/demo-llama", "--port", "0", "--no-pin", "--device",
                      "host", "--pool-gb", "0.1", "--host-tier-gb", "0.05"});
  ASSERT_NE(server.port, 0) << server.process.error();
  const std::size_t before = resident_mb(server.process.pid());
  // The last body is within the bounds and is parsed.
  const std::vector<std::string> bodies = {body_of(R"({"":{}},)"), body_of("0,"),
                                           body_of("1234567,")};
  std::atomic<bool> done{false};
  Clock::duration longest{};
  int probes = 0;
  std::thread prober([&] {
    while (!done.load()) {
      const Clock::time_point begin = Clock::now();
      const std::string answer = HttpExchange(server.port, "GET", "/health", "").read_all();
      EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
      longest = std::max(longest, Clock::now() - begin);
      ++probes;
    }
  });
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] {
      const std::string answer =
          HttpExchange(server.port, "POST", "/v1/completions", bodies[i % 3]).read_all();
      EXPECT_TRUE(answer.starts_with(i % 3 == 2 ? "HTTP/1.1 200" : "HTTP/1.1 413")) << answer;
    });
  }
  for (std::thread& client : clients) client.join();
  done = true;
  prober.join();
  const auto longest_ms = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
  fmt::print("{} probes, the longest took {} ms\n", probes, longest_ms);
  EXPECT_LT(longest_ms, 1000);
  if (sanitized()) GTEST_SKIP() << "a sanitizer keeps what was freed";

  constexpr std::size_t kMayStay = 160;  // MB; without the bound it would be a gigabyte
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(20);
  std::size_t after = resident_mb(server.process.pid());
  while (after > before + kMayStay && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    after = resident_mb(server.process.pid());
  }
  fmt::print("resident memory: {} MB before, {} MB after\n", before, after);
  EXPECT_LE(after, before + kMayStay);
}

}  // namespace
}  // namespace tandem
