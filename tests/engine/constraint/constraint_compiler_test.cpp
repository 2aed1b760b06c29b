// Compiling: refused with the reason, done once, kept while there is room, given up on in time.
#include "engine/constraint/constraint_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
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
    return {*tokenizer_, size, {1}, options};
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
           {{Kind::json_schema, R"({"type":"nonsense"})"}, "nonsense"},
           {{Kind::json_schema, R"({"$ref":"http://example.com/x"})"}, "URI"},
           {{Kind::json_schema, R"({"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})"},
            "no text at all"},
           {{Kind::grammar, "root ::= \"a\" x\nx ::= x"}, "no token may come"},
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

TEST_F(Compiler, GivesUpInTimeAndTellsThoseWhoWaitWhenItEnds) {
  ConstraintOptions options;
  options.deadline = Duration::zero();
  {
    ConstraintCompiler compiler = make(options);
    const auto late = compiler.compile_now({Kind::regex, "[a-z]*x[a-z]*"});
    // The keeper and the thread race: whoever is first, an answer comes.
    if (!late) {
      EXPECT_THAT(late.status().message(), HasSubstr("too long"));
    }
  }
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

TEST_F(Compiler, RefusesAnotherRequestForWhatAStepFoundTooCostly) {
  ConstraintCompiler compiler = make();
  const TextConstraint constraint{Kind::regex, "[xyz]+"};
  compiler.compile_now(constraint).value()->condemn();
  const auto again = compiler.compile_now(constraint);
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.status().message(), HasSubstr("too costly"));
}

}  // namespace
}  // namespace tandem
