// Allocations of the server's threads fail, one or many, anywhere in a call: the call gets an error
// or its connection closes, and the next one is answered as usual.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/json/json_members.h"
#include "base/json/json_release.h"
#include "server_fixture.h"
#include "tests/support/failing_memory.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::int64_t kForEver = std::int64_t{1} << 60;
// nlohmann's destructor of an array or object allocates 16 bytes per member and ends the process if
// that fails. For the calls below these allocations are smaller than this.
constexpr std::size_t kMinBytes = 640;
const int kRounds = sanitized() ? 100 : 400;

struct Call {
  std::string name;
  std::function<ClientResponse(int port)> ask;
};

std::vector<Call> calls() {
  const auto posts = [](std::string name, std::string path, json body) {
    return Call{std::move(name), [path = std::move(path), body = std::move(body)](int port) {
                  return post(port, path, body);
                }};
  };
  const json chat = {{{"role", "user"}, {"content", "Say something"}}};
  return {
      posts("completion", "/v1/completions",
            {{"prompt", {"one", "two"}}, {"n", 3}, {"echo", true}, {"logit_bias", {{"7", 1}}}}),
      posts("chat", "/v1/chat/completions", {{"messages", chat}, {"stop", {"a", "b"}}}),
      posts("stream", "/v1/chat/completions", {{"messages", chat}, {"stream", true}}),
      posts("refused", "/v1/completions", {{"prompt", "x"}, {"temperature", -1}}),
      {"models", [](int port) { return get(port, "/v1/models"); }},
      {"metrics", [](int port) { return get(port, "/metrics"); }},
  };
}

// Returns status and text without the parts that differ from call to call.
std::string gist(const ClientResponse& response) {
  std::string text;
  const json body = json::parse(response.body, nullptr, false);
  if (body.is_object() && body.contains("choices")) {
    text = body["choices"].dump();
  } else if (response.body.starts_with("data: ") && response.complete) {
    for (const std::string& event : events_of(response.body)) {
      const json said = json::parse(event, nullptr, false);
      text += said.is_object() && said.contains("choices") ? said["choices"].dump() : event;
    }
  }
  return fmt::format("{} {}", response.status, text);
}

bool is_failure(const ClientResponse& response) {
  const bool streamed = response.headers.contains("transfer-encoding");
  if (streamed && !response.body.ends_with("data: [DONE]\n\n")) return true;  // cut off
  return response.status == 0 || !response.complete || response.status >= 500 ||
         response.body.find("internal_error") != std::string::npos ||
         response.body.find("\"server_error\"") != std::string::npos;
}

class ServerMemoryFailure : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    testing_thread_stays_out();
    start();
  }
  void TearDown() override {
    (void)test::stop_failing();
    test::may_fail_elsewhere(false);
    ServerTest::TearDown();
  }
  static void testing_thread_stays_out() { test::may_fail_here(false); }
};

TEST(JsonRelease, NeedsNoMemory) {
  json tree = json::array();
  for (int i = 0; i < 100; ++i) {
    tree.push_back({{"list", {1, "two", {{"three", {3, 3.5}}}}}, {"text", std::string(100, 'x')}});
  }
  auto ordered = nlohmann::ordered_json::parse(tree.dump());
  test::may_fail_here(true);
  test::fail_allocations(1, kForEver);
  empty_from_leaves(tree);
  { const EmptiedFromLeaves at_end(ordered); }
  tree = nullptr;
  ordered = nullptr;
  EXPECT_EQ(test::stop_failing(), 0);
  test::may_fail_here(false);
}

TEST(JsonMembers, AreAddedWithoutCopiesOfTheOthersOrNotAtAll) {
  auto object = nlohmann::ordered_json::object();
  auto& members = object.get_ref<nlohmann::ordered_json::object_t&>();
  auto large = nlohmann::ordered_json::parse("[[1], [2, {\"three\": [3]}]]");
  const void* const leaf = &large[0][0];
  add_member(members, "large", large);
  for (std::size_t i = 1; i < 20; ++i) {
    const std::string name = fmt::format("the name of member {}, on the heap", i);
    nlohmann::ordered_json value = i;
    bool added = false;
    for (std::int64_t fails = 1; !added; ++fails) {
      test::may_fail_here(true);
      test::fail_allocations(fails, 1);
      try {
        add_member(members, name, value);
        added = true;
      } catch (const std::bad_alloc&) {
      }
      (void)test::stop_failing();
      test::may_fail_here(false);
      ASSERT_EQ(members.size(), i + (added ? 1 : 0));
      ASSERT_EQ(&object.at("large")[0][0], leaf);
      ASSERT_TRUE(added || value == i);
    }
    ASSERT_EQ(object.at(name), i);
  }
}

TEST_F(ServerMemoryFailure, EndsOneCallAndNoServer) {
  const std::vector<Call> all = calls();
  std::vector<std::string> right;
  std::vector<std::int64_t> allocations;
  test::may_fail_elsewhere(true);
  for (const Call& call : all) {
    (void)call.ask(port);
    test::fail_allocations(kForEver, 1, kMinBytes);
    const ClientResponse response = call.ask(port);
    ASSERT_TRUE(response.status != 0 && response.complete) << call.name;
    allocations.push_back(test::allocations());
    right.push_back(gist(response));
  }
  std::mt19937_64 random(test_seed());
  const auto up_to = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  test::fail_allocations(1, kForEver, kMinBytes);
  EXPECT_TRUE(is_failure(all[0].ask(port)));
  (void)test::stop_failing();
  for (int round = 0; round < kRounds; ++round) {
    const std::size_t i = random() % all.size();
    const std::int64_t first = up_to(allocations[i]);
    const std::int64_t count = random() % 3 == 0 ? up_to(5) : 1;
    SCOPED_TRACE(
        fmt::format("{}, allocations {} to {} fail", all[i].name, first, first + count - 1));
    test::fail_allocations(first, count, kMinBytes);
    const ClientResponse hit = all[i].ask(port);
    const bool any = test::stop_failing() > 0;
    if (is_failure(hit)) {
      EXPECT_TRUE(any);
    } else {
      EXPECT_EQ(gist(hit), right[i]);
    }
    const ClientResponse next = all[i].ask(port);
    ASSERT_TRUE(next.status != 0 && next.complete);
    EXPECT_EQ(gist(next), right[i]);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tandem
