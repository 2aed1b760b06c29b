#include "scheduler/cluster/picker/pick_request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

constexpr std::size_t kMost = 1 << 16;

int status_of(const PickRequest& request, Wanted& wanted) {
  const auto refused = read_pick_request(request, kMost, 58, wanted);
  return refused ? refused->status : 0;
}

PickRequest completion(std::string body) {
  return {.headers = {{":method", "POST"}, {":path", "/v1/completions?x=1"}},
          .body = std::move(body),
          .subset = {}};
}

TEST(PickRequest, NamesTheModelTheLengthsAndTheDeadlines) {
  PickRequest request = completion(R"({"model":"law","prompt":"twelve bytes","max_tokens":7})");
  request.headers["x-slo-ttft-ms"] = "250";
  Wanted wanted;
  EXPECT_EQ(status_of(request, wanted), 0);
  EXPECT_EQ(wanted.model, "law");
  EXPECT_EQ(wanted.prompt_tokens, static_cast<std::int64_t>(request.body.size()) / 4 + 1);
  EXPECT_EQ(wanted.expected_tokens, 7);
  EXPECT_EQ(wanted.slo_ttft_s, 0.25);
  EXPECT_TRUE(wanted.prompt.empty());  // too short for a hash to be useful
  request = completion(fmt::format(R"({{"prompt":"{:x>300}"}})", ""));
  EXPECT_EQ(status_of(request, wanted), 0);
  EXPECT_EQ(wanted.prompt.size(), 2U);
}

TEST(PickRequest, IsAnyEnginesWithoutABodyOrWithOneThatIsNoJson) {
  Wanted wanted;
  EXPECT_EQ(status_of({.headers = {{":path", "/v1/models"}}, .body = {}, .subset = {}}, wanted), 0);
  EXPECT_EQ(wanted.model, "");
  PickRequest form = completion("model=law");
  form.headers["content-type"] = "application/x-www-form-urlencoded";
  EXPECT_EQ(status_of(form, wanted), 0);
  EXPECT_EQ(wanted.model, "");
}

TEST(PickRequest, IsRefusedWhenItsJsonIsNone) {
  Wanted wanted;
  for (const std::string body : {"{", "[1]", "\"x\"", "{} {}", "nonsense"}) {
    EXPECT_EQ(status_of(completion(body), wanted), 400) << body;
  }
  EXPECT_EQ(status_of(completion(std::string("{}\0x", 4)), wanted), 400);
  EXPECT_EQ(status_of(completion(std::string(100, '[') + std::string(100, ']')), wanted), 400);
  PickRequest packed = completion("not gzip");
  packed.headers["content-encoding"] = "gzip";
  EXPECT_EQ(status_of(packed, wanted), 400);
}

TEST(PickRequest, SurvivesAnyBytes) {
  std::mt19937_64 random(test_seed());
  const std::string pieces[] = {
      "{",     "}",     "\"model\"", ":",   "\"a\"", "[",          "]",  ",",
      "1e999", "\"n\"", "null",      "\\u", "\xff",  "\"prompt\"", "-1", "\"max_tokens\""};
  for (int i = 0; i < 3000; ++i) {
    std::string body;
    for (std::uint64_t n = random() % 24; n > 0; --n) body += pieces[random() % std::size(pieces)];
    Wanted wanted;
    const int status = status_of(completion(body), wanted);
    EXPECT_TRUE(status == 0 || status == 400) << body;
    EXPECT_GE(wanted.prompt_tokens, 0);
    EXPECT_GT(wanted.expected_tokens, 0);
  }
}

}  // namespace
}  // namespace tandem
