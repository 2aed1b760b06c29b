#include "engine/tokenizer/jinja/render/builtins.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <charconv>
#include <cmath>
#include <ctime>
#include <utility>

#include "engine/tokenizer/jinja/values/print.h"
#include "engine/tokenizer/jinja/values/search.h"
#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // as in Jinja's sandbox

Value range(Interpreter&, Args& args) {
  if (args.positional.empty() || args.positional.size() > 3 || !args.named.empty())
    throw Error("range takes one to three numbers");
  std::int64_t start = 0;
  std::int64_t stop = integer_of(args.positional[0]);
  std::int64_t step = 1;
  if (args.positional.size() > 1) {
    start = stop;
    stop = integer_of(args.positional[1]);
  }
  if (args.positional.size() > 2) step = integer_of(args.positional[2]);
  if (step == 0) throw Error("range with step 0");
  Values numbers;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<std::int64_t>(numbers.size()) == kMaxRange)
      throw Error(fmt::format("range of more than {} numbers", kMaxRange));
    spend_steps(1);
    numbers.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(std::move(numbers));
}

Value dict(Interpreter&, Args& args) {
  auto result = make_metered<Dict>();
  if (args.positional.size() > 1) throw Error("dict takes one positional argument at most");
  if (!args.positional.empty()) {
    const Dict* other = args.positional[0].as<Dict>();
    if (other == nullptr) throw Error("dict of something that is no dict is not supported");
    *result = *other;
  }
  for (const auto& [name, value] : args.named) result->set(Value(name), value);
  return make_dict(std::move(result));
}

Value make_namespace(Interpreter& in, Args& args) {
  spend_steps(8);
  std::shared_ptr<Namespace> space = in.make_namespace();
  if (args.positional.size() > 1) throw Error("namespace takes one positional argument at most");
  if (!args.positional.empty()) {
    const Dict* members = args.positional[0].as<Dict>();
    if (members == nullptr) throw Error("namespace of something that is no dict is not supported");
    for (const auto& [key, value] : members->items) space->members[str(key)] = value;
  }
  for (const auto& [name, value] : args.named) space->members[name] = value;
  return Value(space);
}

Value raise_exception(Interpreter&, Args& args) {
  ArgReader reader(args, "raise_exception");
  const Value message = reader.require("message");
  reader.done();
  throw Raised(std::string(str(message)));
}

Value strftime_now(Interpreter&, Args& args) {
  ArgReader reader(args, "strftime_now");
  const Value format = reader.require("format");
  reader.done();
  if (!is_string(format)) throw Error("strftime_now: the format must be a string");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  // strftime returns 0 both for an empty result and for one that did not fit, so a character is
  // added to make the result non-empty.
  const String padded = *format.as<String>() + ".";
  String text(padded.size() * 8 + 256, '\0');
  const std::size_t size = std::strftime(text.data(), text.size(), padded.c_str(), &local);
  if (size == 0) throw Error("strftime_now: the format is too long");
  text.resize(size - 1);
  return Value(std::move(text));
}

// Returns its arguments in turn: {% set c = cycler('a', 'b') %}{{ c.next() }}.
Value cycler(Interpreter& in, Args& args) {
  if (args.positional.empty() || !args.named.empty()) throw Error("cycler takes items alone");
  struct Turn {
    Values items;
    std::size_t at = 0;
  };
  const Value items = make_list(args.positional);  // refuses arguments that are nested too deeply
  const auto turn = make_metered<Turn>(Turn{args.positional});
  // A plain pointer suffices, because the interpreter keeps the namespace until it ends, and makes
  // no calls after that.
  const std::shared_ptr<Namespace> space = in.make_namespace();
  const auto show = [turn, members = space.get()] {
    members->members["current"] = turn->items[turn->at];
  };
  space->members["next"] = make_function(
      "cycler.next",
      [turn, show](Interpreter&, Args& none) {
        ArgReader(none, "cycler.next").done();
        Value now = turn->items[turn->at];
        turn->at = (turn->at + 1) % turn->items.size();
        show();
        return now;
      },
      &items);
  space->members["reset"] = make_function(
      "cycler.reset",
      [turn, show](Interpreter&, Args& none) {
        ArgReader(none, "cycler.reset").done();
        turn->at = 0;
        show();
        return Value();
      },
      &items);
  show();
  return Value(space);
}

// Returns nothing at its first call, and the separator at each later one.
Value joiner(Interpreter&, Args& args) {
  ArgReader reader(args, "joiner");
  const Value separator = reader.next("sep", Value(", "));
  reader.done();
  return make_function(
      "joiner",
      [separator, used = make_metered<bool>(false)](Interpreter&, Args& none) {
        ArgReader(none, "joiner").done();
        return std::exchange(*used, true) ? separator : Value("");
      },
      &separator);
}

}  // namespace

std::int64_t truncated(double d) {
  if (!(std::abs(d) < 9.2e18)) throw Error("a number is too large for an integer");
  return static_cast<std::int64_t>(d);
}

bool is_digit(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND || c == 0xB2 ||
         c == 0xB3 || c == 0xB9;
}

void add_globals(Interpreter& interpreter) {
  for (const auto& [name, function] :
       {std::pair{"range", &range}, std::pair{"dict", &dict},
        std::pair{"namespace", &make_namespace}, std::pair{"raise_exception", &raise_exception},
        std::pair{"strftime_now", &strftime_now}, std::pair{"cycler", &cycler},
        std::pair{"joiner", &joiner}})
    interpreter.set_global(name, make_function(name, function));
}

String replace_text(std::string_view text, std::string_view from, std::string_view to,
                    std::int64_t count) {
  String out;
  std::size_t pos = 0;
  if (from.empty()) {  // inserts between all characters and at both ends
    while (count != 0) {
      spend(kStepUnits + to.size());
      out += to;
      --count;
      if (pos == text.size()) return out;
      const std::size_t begin = pos;
      utf8::next(text, pos);
      out += text.substr(begin, pos - begin);
    }
    return out.append(text.substr(pos));
  }
  for (const std::size_t at : find_all(text, from, count)) {
    spend(at - pos + to.size());
    out += text.substr(pos, at - pos);
    out += to;
    pos = at + from.size();
  }
  spend(text.size() - pos);
  return out.append(text.substr(pos));
}

Value items_of(const Value& value) {
  if (is_undefined(value)) return make_list({});
  const Dict* dict = value.as<Dict>();
  if (dict == nullptr) throw Error(fmt::format("items of a {}", type_name(value)));
  spend_for(value);
  Values items;
  for (const auto& [key, member] : dict->items) items.push_back(make_tuple({key, member}));
  return make_list(std::move(items));
}

}  // namespace tandem::jinja
