// A real server has streams that no client reads: they give up their places in the batch, and other
// requests are served as if these did not exist.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/tools/process.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

double generated_tokens(int port) {
  const std::string metrics = HttpExchange(port, "GET", "/metrics", "").read_all();
  const std::size_t at = metrics.find("\nvllm:generation_tokens_total{");
  return at == std::string::npos ? -1 : std::stod(metrics.substr(metrics.find("} ", at) + 2));
}

TEST(UnreadStreams, GiveUpTheirPlacesToOthers) {
  constexpr int kClients = 16;
  constexpr int kChoices = 16;
  constexpr int kTokens = 1000;
  ReadyServer server({"serve", "--model", "data/demo-llama", "--port", "0", "--no-pin", "--device",
                      "host", "--pool-gb", "0.1", "--host-tier-gb", "0.05"});
  ASSERT_NE(server.port, 0) << server.process.error();
  std::vector<std::unique_ptr<HttpExchange>> clients;  // they never read
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<HttpExchange>(
        server.port, "POST", "/v1/completions",
        fmt::format(R"({{"prompt": "import os", "n": {}, "max_tokens": {}, "ignore_eos": true,
                         "stream": true}})",
                    kChoices, kTokens)));
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::string answer = HttpExchange(server.port, "POST", "/v1/completions",
                                          R"({"prompt": "import os", "max_tokens": 4})")
                                 .read_all();
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200"));
  const double tokens = generated_tokens(server.port);
  fmt::print("served after {} ms, beside {} tokens of {}\n",
             std::chrono::duration_cast<std::chrono::milliseconds>(took).count(), tokens,
             kClients * kChoices * kTokens);
  EXPECT_GT(tokens, 0);
  EXPECT_LT(tokens, kClients * 2000) << "much is computed that nobody reads";
}

}  // namespace
}  // namespace tandem
