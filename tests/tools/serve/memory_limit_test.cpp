// A real server runs out of memory: calls that its own limits accept, under a limit of the system.
// Each call gets an answer or an error, or its connection closes; then everything is as before.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/support/test_seed.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

// Returns the address space of a process in bytes.
std::size_t size_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/statm", process));
  std::size_t pages = 0;
  file >> pages;
  return pages * 4096;
}

void limit(pid_t process, rlim_t bytes) {
  const rlimit soft{bytes, RLIM_INFINITY};
  ASSERT_EQ(prlimit(process, RLIMIT_AS, &soft, nullptr), 0);
}

std::string repeated(const std::string& what, int times) {
  std::string all = what;
  for (int i = 1; i < times; ++i) all += "," + what;
  return all;
}

struct Call {
  std::string path;
  std::string body;
};

// Calls that need much memory for their size: millions of numbers, ten thousands of objects. None
// of them is computed, because oneDNN in the host device ends the process if it gets no memory.
std::vector<Call> greedy_calls() {
  return {
      {"/v1/completions", fmt::format(R"({{"prompt": [{}]}})", repeated("7", 2'000'000))},
      {"/v1/chat/completions", fmt::format(R"({{"messages": [{}], "max_tokens": 1}})",
                                           repeated(R"({"role":"user","content":"a"})", 20'000))},
      {"/tokenize", fmt::format(R"({{"messages": [{{"role":"user","content":"a"}}],
                                     "chat_template_kwargs": {{"x": [{}]}}}})",
                                repeated("[]", 400'000))},
  };
}

int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0;
}

std::string body_of(const std::string& answer) {
  const std::size_t head = answer.find("\r\n\r\n");
  return head == std::string::npos ? "" : answer.substr(head + 4);
}

std::string text_of(int port) {
  const std::string answer =
      HttpExchange(port, "POST", "/v1/completions", R"({"prompt": "def main", "temperature": 0})")
          .read_all();
  const std::size_t at = answer.find("\"text\"");
  return status_of(answer) != 200 || at == std::string::npos
             ? answer
             : answer.substr(at, answer.find('}', at) - at);
}

TEST(MemoryLimit, EndsCallsAndNotTheServer) {
  if (sanitized()) {
    GTEST_SKIP() << "the sanitizers' own memory breaks any limit of address space";
  }
  ReadyServer server({"serve", "--model", "data/demo-llama", "--adapters",
                      "data/demo-llama/adapters", "--port", "0", "--no-pin", "--device", "host",
                      "--pool-gb", "0.1", "--adapter-mode", "cached"});
  ASSERT_NE(server.port, 0) << server.process.error();
  const std::string right = text_of(server.port);
  ASSERT_NE(right.find("\"text\""), std::string::npos) << right;

  const std::vector<Call> calls = greedy_calls();
  int refused = 0;
  std::mutex mutex;
  for (int round = 0; round < 3; ++round) {
    // The first round has the lowest limit, because address space once taken may be used again.
    limit(server.process.pid(), size_of(server.process.pid()) + (8U << (2 * round)) * (1U << 20));
    std::vector<std::thread> clients;
    for (int client = 0; client < 10; ++client) {
      clients.emplace_back([&, client] {
        const Call& call = calls[static_cast<std::size_t>(client) % calls.size()];
        const std::string answer =
            HttpExchange(server.port, "POST", call.path, call.body).read_all();
        const int status = status_of(answer);
        const bool failed = status == 0 || status >= 500 ||
                            body_of(answer).find("internal_error") != std::string::npos;
        const std::lock_guard lock(mutex);
        refused += failed ? 1 : 0;
      });
    }
    for (std::thread& client : clients) client.join();
    server.process.read_what_is_there();
    limit(server.process.pid(), RLIM_INFINITY);
    ASSERT_EQ(text_of(server.port), right) << "round " << round << "\n" << server.process.error();
  }
  EXPECT_GT(refused, 0) << "memory was never short: the limits above are too high";

  server.process.send_signal(SIGTERM);
  EXPECT_EQ(server.process.wait(), 0) << server.process.error();
}

}  // namespace
}  // namespace tandem
