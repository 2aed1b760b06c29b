// Compiling: refusals with a reason, single compilation, a bounded cache, and a time limit.
#include "engine/constraint/constraint_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "engine/constraint/compiled_constraint.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Kind = TextConstraint::Kind;

class Compiler : public ::testing::Test {
 protected:
  ConstraintCompiler make(const ConstraintOptions& options = {}) {
    const auto size = static_cast<std::int32_t>(tokenizer_->vocab_size());
    ConstraintOptions with_program = options;
    with_program.program = CONSTRAINT_WORKER;
    return {*tokenizer_, size, {1}, with_program};
  }
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load("data/demo-llama").value();
};

TEST_F(Compiler, MakesAllKinds) {
  ConstraintCompiler compiler = make();
  for (const TextConstraint& constraint : std::vector<TextConstraint>{
           {Kind::json_object, ""},
           {Kind::json_schema, R"({"type":"object","properties":{"a":{"type":"integer"}}})"},
           {Kind::regex, "[0-9]{3}-[a-z]+"},
           {Kind::grammar, "root ::= \"yes\" | \"no\""},
           {Kind::structural_tag,
            R"({"type":"structural_tag","format":{"type":"tag","begin":"<f>","content":)"
            R"({"type":"json_schema","json_schema":{"type":"object"}},"end":"</f>"}})"}}) {
    const auto compiled = compiler.compile_now(constraint);
    EXPECT_TRUE(compiled.ok()) << constraint.text << ": " << compiled.status().message();
  }
}

TEST_F(Compiler, RefusesWhatXgrammarWouldRefuseOrLeaveOut) {
  ConstraintCompiler compiler = make();
  for (const auto& [constraint, reason] : std::vector<std::pair<TextConstraint, const char*>>{
           {{Kind::regex, "(a"}, ""},
           {{Kind::regex, "a(?=b)c"}, ""},
           {{Kind::grammar, "root ::= missing"}, "missing"},
           {{Kind::grammar, "start ::= \"a\""}, "root"},
           {{Kind::json_schema, R"({"type":"nonsense"})"}, "#/type"},
           {{Kind::json_schema, R"({"$ref":"http://example.com/x"})"}, "URI"},
           {{Kind::json_schema, R"({"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})"},
            "no text at all"},
           {{Kind::grammar, "root ::= \"a\" x\nx ::= x"}, "no token is allowed"},
           {{Kind::structural_tag, R"({"type":"structural_tag"})"}, ""}}) {
    const auto compiled = compiler.compile_now(constraint);
    ASSERT_FALSE(compiled.ok()) << constraint.text;
    EXPECT_EQ(compiled.status().code(), StatusCode::invalid_argument) << constraint.text;
    EXPECT_THAT(compiled.status().message(), HasSubstr(reason)) << constraint.text;
  }
}

TEST_F(Compiler, CompilesEqualConstraintsOnceAlsoAtTheSameTime) {
  ConstraintCompiler compiler = make();
  const TextConstraint constraint{Kind::regex, "[a-f]{8}"};
  std::vector<std::promise<ConstraintCompiler::Compiled>> promises(8);
  for (auto& promise : promises) {
    compiler.compile(constraint, [&promise](Result<ConstraintCompiler::Compiled> got) {
      promise.set_value(got.value());
    });
  }
  const auto first = promises[0].get_future().get();
  for (std::size_t i = 1; i < promises.size(); ++i) {
    EXPECT_EQ(promises[i].get_future().get(), first);
  }
  EXPECT_EQ(compiler.compile_now(constraint).value(), first);
}

TEST_F(Compiler, KeepsTheLatestThatFitIntoItsCache) {
  const auto kept = [&](std::size_t bytes, const TextConstraint& one, const TextConstraint& two) {
    ConstraintOptions options;
    options.cache_bytes = bytes;
    ConstraintCompiler compiler = make(options);
    const auto before = compiler.compile_now(one).value();
    (void)compiler.compile_now(two).value();
    return compiler.compile_now(one).value() == before;
  };
  const TextConstraint one{Kind::regex, "[a-m]{4}"};
  const TextConstraint two{Kind::regex, "[n-z]{4}"};
  ConstraintCompiler compiler = make();
  const std::size_t bytes = compiler.compile_now(one).value()->bytes() + 512;
  EXPECT_TRUE(kept(4 * bytes, one, two));
  EXPECT_FALSE(kept(bytes, one, two));
  EXPECT_FALSE(kept(0, one, one));
}

// Makes a pattern whose compilation takes many times what the options here allow.
TextConstraint too_costly(int nth = 0) {
  return {Kind::regex, std::string(static_cast<std::size_t>(30'000 + nth), '.')};
}

ConstraintOptions hasty() {
  ConstraintOptions options;
  options.quick.cpu = std::chrono::milliseconds(30);
  options.slow.cpu = std::chrono::milliseconds(60);
  return options;
}

TEST_F(Compiler, GivesUpWhatTakesTooLongAndRemembersThatItDid) {
  ConstraintCompiler compiler = make(hasty());
  const auto late = compiler.compile_now(too_costly());
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.status().code(), StatusCode::invalid_argument);
  EXPECT_THAT(late.status().message(), HasSubstr("too long"));
  bool told_at_once = false;
  compiler.compile(too_costly(), [&](const auto& again) { told_at_once = !again.ok(); });
  EXPECT_TRUE(told_at_once);
}

// The process for slow constraints stays busy, so the following slow ones find it busy: they still
// get an answer, and ordinary constraints are not delayed.
TEST_F(Compiler, CompilesOrdinaryOnesBesideThoseThatTakeTooLong) {
  ConstraintOptions options = hasty();
  options.slow.cpu = std::chrono::seconds(20);
  std::atomic<int> told = 0;
  {
    ConstraintCompiler compiler = make(options);
    for (int i = 0; i < 3; ++i) {
      compiler.compile(too_costly(i), [&](const auto&) { ++told; });
    }
    const auto ordinary = compiler.compile_now({Kind::regex, "[a-z]{3}"});
    EXPECT_TRUE(ordinary.ok()) << ordinary.status().message();
    EXPECT_EQ(told, 0);
  }
  EXPECT_EQ(told, 3);  // the answer says that it is shutting down
}

TEST_F(Compiler, TellsThoseWhoWaitWhenItEnds) {
  std::atomic<int> told = 0;
  {
    ConstraintCompiler compiler = make();
    for (int i = 0; i < 5; ++i) {
      compiler.compile({Kind::regex, "x{" + std::to_string(i + 1) + "}"},
                       [&](const auto&) { ++told; });
    }
  }
  EXPECT_EQ(told, 5);
}

TEST_F(Compiler, IsUnavailableWithoutAProcess) {
  ConstraintOptions options;
  options.program = "/nowhere/tandem";
  ConstraintCompiler compiler(*tokenizer_, static_cast<std::int32_t>(tokenizer_->vocab_size()), {1},
                              options);
  const auto compiled = compiler.compile_now({Kind::regex, "[a-z]{3}"});
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.status().code(), StatusCode::unavailable);
}

TEST_F(Compiler, RefusesAnotherRequestForWhatAStepFoundTooCostly) {
  ConstraintCompiler compiler = make();
  const TextConstraint constraint{Kind::regex, "[xyz]+"};
  compiler.compile_now(constraint).value()->condemn();
  const auto again = compiler.compile_now(constraint);
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.status().message(), HasSubstr("too costly"));
}

// Median in milliseconds, for schemas that differ, so that none is in the cache.
double median_compile_ms(ConstraintCompiler& compiler, const std::string& name) {
  constexpr int kSchemas = 41;
  std::vector<double> times_ms;
  for (int i = 0; i <= kSchemas; ++i) {
    const TextConstraint schema{
        Kind::json_schema,
        fmt::format(R"({{"type":"object","properties":{{"{}{}":{{"type":"integer"}},)"
                    R"("name":{{"type":"string"}},"kind":{{"enum":["a","b","c"]}},)"
                    R"("tags":{{"type":"array","items":{{"type":"string"}}}}}},)"
                    R"("required":["name","kind"],"additionalProperties":false}})",
                    name, i)};
    const TimePoint begin = SteadyClock().now();
    EXPECT_TRUE(compiler.compile_now(schema).ok());
    // The first compilation includes the start of the process.
    if (i > 0) times_ms.push_back(1e3 * seconds_between(begin, SteadyClock().now()));
  }
  std::nth_element(times_ms.begin(), times_ms.begin() + kSchemas / 2, times_ms.end());
  return times_ms[kSchemas / 2];
}

// Prints the times; the bound is loose, because other programs may use the machine.
TEST_F(Compiler, TakesLittleLongerInAnotherProcess) {
  ConstraintCompiler here(*tokenizer_, static_cast<std::int32_t>(tokenizer_->vocab_size()), {1},
                          {});
  ConstraintCompiler there = make();
  const double here_ms = median_compile_ms(here, "a");
  const double there_ms = median_compile_ms(there, "a");
  fmt::print("median of a schema: {:.2f} ms in this process, {:.2f} ms in another\n", here_ms,
             there_ms);
  EXPECT_LT(there_ms, 2 * here_ms + 20);
}

}  // namespace
}  // namespace tandem
