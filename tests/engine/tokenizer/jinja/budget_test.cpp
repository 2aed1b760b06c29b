// Whatever a template does is charged: work ends at the budget, and memory is released.
#include "engine/tokenizer/jinja/values/budget.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "engine/tokenizer/jinja/chat_template.h"
#include "engine/tokenizer/jinja/render/builtins.h"
#include "engine/tokenizer/jinja/render/interpreter.h"
#include "engine/tokenizer/jinja/values/error.h"
#include "engine/tokenizer/jinja/values/from_json.h"
#include "tests/support/test_seed.h"

namespace tandem::jinja {
namespace {

using testing::HasSubstr;

constexpr Budget::Limits kLimits{.work_units = 32'000'000, .held_bytes = 8U << 20};

struct Outcome {
  std::string text;  // the output, or the error message
  bool failed = false;
  std::uint64_t spent = 0;
  std::uint64_t held_after = 0;
};

Outcome run(const std::string& source, const Budget::Limits& limits = kLimits,
            Budget::Watch watch = {}) {
  Outcome outcome;
  try {
    const Body body = parse(source, {find_filter, find_test});
    Budget budget(limits, std::move(watch));
    const Budget::Scope scope(budget);
    try {
      Interpreter interpreter;
      add_globals(interpreter);
      outcome.text = std::string(interpreter.render(body));
    } catch (const Error& e) {
      outcome.text = e.what();
      outcome.failed = true;
    }
    outcome.spent = budget.spent();
    outcome.held_after = budget.held();
  } catch (const Error& e) {  // thrown by the parser
    outcome.text = e.what();
    outcome.failed = true;
  }
  return outcome;
}

// The charge that exceeds the limit is for at most the held bytes, and no work is done for it.
std::uint64_t most(const Budget::Limits& limits) {
  return limits.work_units + 2 * limits.held_bytes + kStepUnits;
}

// d: a list that shares its halves, with 2^40 values if all are visited. t: 2^18 letters. l: long.
const std::string kPrelude =
    "{% set ns = namespace(x=[], y={'a': 1}, t='aaaaaaaa') %}"
    "{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
    "{% for i in range(40) %}{% set ns.y = {'a': ns.y, 'b': ns.y} %}{% endfor %}"
    "{% for i in range(15) %}{% set ns.t = ns.t + ns.t %}{% endfor %}"
    "{% set d = ns.x %}{% set m = ns.y %}{% set t = ns.t %}{% set l = range(50000) | list %}";

std::string forever(const std::string& body) {
  return "{% for i in l %}{% for j in l %}" + body + "{% endfor %}{% endfor %}";
}

TEST(TemplateBudget, EndsEveryConstructThatMultipliesWork) {
  const std::string constructs[] = {
      // visits of all parts of a shared value
      "{{ d }}",
      "{{ m }}",
      "{{ d | string }}",
      "{{ d ~ 'x' }}",
      "{{ '%s' % (d,) }}",
      "{{ '%r' % (d,) }}",
      "{{ '{}'.format(d) }}",
      "{{ 'x %s' | format(d) }}",
      "{{ d | tojson }}",
      "{{ m | tojson }}",
      "{{ d | tojson(indent=4) }}",
      "{{ m | tojson(sort_keys=true) }}",
      "{{ d == d }}",
      "{{ d != d }}",
      "{{ m == m }}",
      "{{ d < d }}",
      "{{ d >= d }}",
      "{{ d is eq(d) }}",
      "{{ d is sameas(d) }}",
      "{{ d is lt(d) }}",
      "{{ d in [d] }}",
      "{{ d not in [1, d] }}",
      "{{ d is in([d]) }}",
      "{{ [d, d].index(d) }}",
      "{{ [d].count(d) }}",
      "{{ [d, d] | sort }}",
      "{{ [d, d] | min }}",
      "{{ [d, d] | max }}",
      "{{ {'a': d, 'b': d} | dictsort(by='value') }}",
      "{{ [d] | join }}",
      "{{ [d, d] | map('string') | list }}",
      "{{ [d] | select('equalto', d) | list }}",
      "{{ [{'x': d}] | selectattr('x', 'equalto', d) | list }}",
      "{{ d | upper }}{{ d | trim }}",
      "{{ d | replace('[', '') }}",
      "{{ d | wordcount }}",
      "{{ d | title }}",
      "{{ d | indent }}",
      "{{ d | escape }}",
      "{{ d is lower }}",
      "{% for i in range(2) %}{{ loop.changed(d) }}{% endfor %}",
      "{{ raise_exception(d) }}",
      "{{ namespace(d) }}{{ {d: 1} }}{{ d }}",
      "{% set x %}{{ d }}{% endset %}",
      "{% filter upper %}{{ d }}{% endfilter %}",
      "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(d) }}",
      // growing text
      "{{ 'x' * 100000000000 }}",
      "{{ [0] * 100000000000 }}",
      "{{ (1, 2) * 10000000 }}",
      "{% for i in l %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
      "{% for i in l %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
      "{% for i in l %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% for i in l %}{% set ns.t = ns.t.replace('a', 'aaaa') %}{% endfor %}",
      "{% for i in l %}{% set ns.t = ns.t | replace('', 'aaaa') %}{% endfor %}",
      "{% for i in l %}{% set ns.t = '%s%s' % (ns.t, ns.t) %}{% endfor %}",
      "{% for i in l %}{% set ns.t = '{0}{0}{0}'.format(ns.t) %}{% endfor %}",
      "{% for i in l %}{% set ns.t = [ns.t, ns.t] | join(ns.t) %}{% endfor %}",
      "{% for i in l %}{% set ns.t = ns.t.join([ns.t, ns.t]) %}{% endfor %}",
      "{% for i in l %}{% set ns.t = ns.t | tojson | tojson %}{% endfor %}",
      "{{ ('\n' * 10000) | indent(10000, blank=true) }}",
      "{{ l | tojson(indent=64) }}{{ [[[[l]]]] | tojson(indent=64) }}",
      "{{ l | tojson(separators=(t, t)) }}",
      "{{ l | join(t) }}",
      "{{ t.replace('', t) }}",
      "{{ strftime_now('%c' * 1000000) }}",
      // work with little output
      forever(""),
      forever("{% if t == t ~ 'b' %}{% endif %}"),
      forever("{% if t < t ~ 'b' %}{% endif %}"),
      forever("{% if l == l %}{% endif %}"),
      forever("{% if -1 in l %}{% endif %}"),
      forever("{% if 'b' in t %}{% endif %}"),
      forever("{% set x = t[::2] %}"),
      forever("{% set x = t[1:] %}"),
      forever("{% set x = t[-1] %}"),
      forever("{% set x = l[1:] %}"),
      forever("{% set x = l[::-1] %}"),
      forever("{% set x = t | length %}"),
      forever("{% set x = t.strip('b') %}"),
      forever("{% set x = t.strip('a') %}"),
      forever("{% set x = t.split('b') %}"),
      forever("{% set x = t.rsplit('b') %}"),
      forever("{% set x = t.split() %}"),
      forever("{% set x = t.splitlines() %}"),
      forever("{% set x = t.startswith(t) %}"),
      forever("{% set x = t.endswith(t) %}"),
      forever("{% set x = t.find('b') %}"),
      forever("{% set x = t.rfind('b') %}"),
      forever("{% set x = t.count('b') %}"),
      forever("{% set x = t.upper() %}"),
      forever("{% set x = t.isalpha() %}"),
      forever("{% set x = t.removeprefix(t) %}"),
      forever("{% set x = l | list %}"),
      forever("{% set x = l | reverse %}"),
      forever("{% set x = l | sort %}"),
      forever("{% set x = l | unique %}"),
      forever("{% set x = l | sum %}"),
      forever("{% set x = l | min %}"),
      forever("{% set x = l | first %}"),
      forever("{% set x = l | map('string') %}"),
      forever("{% set x = l | select %}"),
      forever("{% set x = t | list %}"),
      forever("{% set x = t | first %}"),
      forever("{% set x = t | int %}"),
      forever("{% set x = t | float %}"),
      forever("{% set x = t is lower %}"),
      forever("{% set x = range(100000) %}"),
      forever("{% set x = dict(m) %}"),
      forever("{% set x = m | items %}"),
      forever("{% set x = namespace(m) %}"),
      forever("{% set x = {t: 1}[t] %}"),
      forever("{% set x = t in {t: 1} %}"),
      // searches that standard libraries do in time proportional to the product of the lengths
      "{% set p = t[:131072] ~ 'b' %}" + forever("{% set x = p in t %}"),
      "{% set p = 'b' ~ t[:131072] %}" + forever("{% set x = t.rfind(p) %}"),
      "{% set p = 'b' ~ t[:131072] %}" + forever("{% set x = t.rsplit(p) %}"),
      "{% set p = t[:131072] ~ 'b' %}" + forever("{% set x = t.replace(p, '') %}"),
      "{{ t.strip(t[:131072] ~ 'b') }}{{ ('b' ~ t).strip(t ~ 'b') }}" +
          forever("{{ t.strip('xa') }}"),
      // deep nesting
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% for i in l %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% for i in l %}{% set ns.x = {'a': ns.x} %}{% endfor %}",
      "{% for i in l %}{% set ns.x = ns.x.index %}{% endfor %}{{ ns.x }}",
      "{% for i in l %}{% set ns.x = namespace(x=ns.x) %}{% endfor %}" + forever(""),
  };
  const Outcome prelude = run(kPrelude);
  ASSERT_FALSE(prelude.failed) << prelude.text;
  ASSERT_LT(prelude.spent, kLimits.work_units / 2);
  for (const std::string& construct : constructs) {
    SCOPED_TRACE(construct);
    const Outcome outcome = run(kPrelude + construct);
    EXPECT_TRUE(outcome.failed) << outcome.text.substr(0, 100);
    EXPECT_LE(outcome.spent, most(kLimits));
    EXPECT_EQ(outcome.held_after, 0U);
    EXPECT_THAT(
        outcome.text,
        testing::AnyOf(HasSubstr("steps"), HasSubstr("more than"), HasSubstr("deeply"),
                       HasSubstr("too long"), HasSubstr("too large"), HasSubstr("cannot"),
                       HasSubstr("unhashable"), HasSubstr("undefined"), HasSubstr("supported")));
  }
}

TEST(TemplateBudget, LeavesRoomForLongConversations) {
  ChatInput input;
  for (int i = 0; i < 2000; ++i)
    input.messages.push_back(
        {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(1000, 'x')}});
  const auto chat = ChatTemplate::parse(
      "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] | trim + '<|end|>' }}"
      "{% endfor %}",
      nlohmann::ordered_json::object());
  ASSERT_TRUE(chat.ok());
  const auto text = (*chat)->render(input);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_GT(text->size(), 2'000'000U);
}

TEST(TemplateBudget, EndsARenderingThatIsAskedToEnd) {
  const auto chat = ChatTemplate::parse(
      "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
      nlohmann::ordered_json::object());
  ASSERT_TRUE(chat.ok());
  const std::atomic<bool> stopped = true;
  const auto text = (*chat)->render({}, {.stopped = &stopped});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), StatusCode::unavailable);
}

TEST(TemplateBudget, EndsARenderingAtItsDeadline) {
  TimePoint now{};
  int looks = 0;
  const Outcome outcome = run(kPrelude + forever(""), {},
                              {.stopped = {},
                               .now =
                                   [&] {
                                     ++looks;
                                     return now += std::chrono::milliseconds(1);
                                   },
                               .deadline = now + std::chrono::milliseconds(3)});
  EXPECT_THAT(outcome.text, HasSubstr("takes too long"));
  EXPECT_EQ(looks, 4);
}

TEST(TemplateBudget, ReturnsWhatCyclesHold) {
  for (const char* source :
       {"{% set n = namespace() %}{% set n.n = n %}{% set n.l = [n, n] %}{{ n.missing.x }}",
        "{% for i in [1, 2] %}{{ loop.changed(loop) }}{{ missing.x }}{% endfor %}",
        "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ x.y }}{% endmacro %}{{ f() }}",
        "{% set n = namespace() %}{% for i in [1] %}{% macro f() %}{{ i }}{% endmacro %}"
        "{% set n.f = f %}{% set n.l = loop %}{{ x.y }}{% endfor %}"}) {
    SCOPED_TRACE(source);
    const Outcome outcome = run(source);
    EXPECT_TRUE(outcome.failed);
    EXPECT_EQ(outcome.held_after, 0U);
  }
}

// Generates random templates from the grammar: the budget ends them all.
class RandomTemplate {
 public:
  explicit RandomTemplate(std::uint64_t seed) : random_(seed) {}

  std::string body(int depth) {
    std::string out;
    for (unsigned n = 1 + pick(4); n > 0; --n) out += statement(depth);
    return out;
  }

 private:
  unsigned pick(unsigned n) { return static_cast<unsigned>(random_() % n); }
  template <std::size_t N>
  const char* one_of(const char* const (&list)[N]) {
    return list[pick(N)];
  }

  std::string statement(int depth) {
    static const char* const kTargets[] = {"a", "b", "ns.x", "ns.y"};
    switch (depth == 0 ? pick(2) : pick(6)) {
      case 0:
        return "{{ " + expression(2) + " }}";
      case 1:
        return fmt::format("{{% set {} = {} %}}", one_of(kTargets), expression(3));
      case 2:
        return fmt::format("{{% for {} in {} %}}{}{{% endfor %}}", one_of({"a", "c"}),
                           pick(2) == 0 ? "range(999)" : expression(2), body(depth - 1));
      case 3:
        return fmt::format("{{% if {} %}}{}{{% endif %}}", expression(2), body(depth - 1));
      case 4:
        return fmt::format("{{% macro f(a) %}}{}{{% endmacro %}}", body(depth - 1));
      default:
        return fmt::format("{{% set {} %}}{}{{% endset %}}", one_of({"a", "b"}), body(depth - 1));
    }
  }

  std::string expression(int depth) {
    static const char* const kLeaves[] = {"a",     "b",    "c",    "ns.x",       "ns.y",   "loop",
                                          "'xyz'", "[]",   "[a]",  "{'k': a}",   "7",      "-1",
                                          "1.5",   "none", "true", "range(100)", "'a,b c'"};
    if (depth == 0) return one_of(kLeaves);
    const std::string x = expression(depth - 1);
    const std::string y = expression(depth - 1);
    switch (pick(9)) {
      case 0:
        return "[" + x + ", " + x + "]";
      case 1:
        return fmt::format("({} {} {})", x,
                           one_of({"+", "*", "~", "==", "<", "in", "%", "-", "and", "or", "//"}),
                           y);
      case 2:
        return fmt::format("({} | {})", x,
                           one_of({"string",
                                   "tojson",
                                   "length",
                                   "list",
                                   "sort",
                                   "unique",
                                   "join",
                                   "upper",
                                   "trim",
                                   "reverse",
                                   "first",
                                   "sum",
                                   "items",
                                   "indent",
                                   "tojson(indent=4)",
                                   "map('string') | list",
                                   "title",
                                   "int",
                                   "dictsort",
                                   "min",
                                   "join(b)",
                                   "replace('a', b)",
                                   "wordcount"}));
      case 3:
        return fmt::format("{}.{}({})", one_of({"a", "b", "'a b'", "ns.x"}),
                           one_of({"split", "strip", "replace", "join", "count", "find", "index",
                                   "items", "get", "format", "upper", "rsplit", "startswith"}),
                           pick(2) == 0 ? "" : x);
      case 4:
        return "{'k': " + x + ", 'l': " + y + "}";
      case 5:
        return fmt::format("({})[{}]", x, one_of({"0", "-1", "'k'", "1:", "::-1", "::2", "a"}));
      case 6:
        return fmt::format("({} is {})", x,
                           one_of({"defined", "string", "mapping", "iterable", "lower", "odd"}));
      case 7:
        return "f(" + x + ")";
      default:
        return "(" + x + " if " + y + " else a)";
    }
  }
  const char* one_of(std::initializer_list<const char*> list) {
    return list.begin()[pick(static_cast<unsigned>(list.size()))];
  }

  std::mt19937_64 random_;
};

TEST(TemplateBudget, HoldsForRandomTemplates) {
  constexpr Budget::Limits kSmall{.work_units = 400'000, .held_bytes = 1U << 20};
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (std::uint64_t round = 0; round < 3000; ++round) {
    const std::string body = RandomTemplate(seed + round).body(3);
    ASSERT_FALSE(run("{% if false %}" + body + "{% endif %}").failed) << "no template: " << body;
    const std::string source = "{% set ns = namespace(x=[1], y='ab') %}{% set a = 'aaa' %}" + body;
    const Outcome outcome = run(source, kSmall);
    ASSERT_LE(outcome.spent, most(kSmall)) << source;
    ASSERT_EQ(outcome.held_after, 0U) << source;
  }
}

}  // namespace
}  // namespace tandem::jinja
