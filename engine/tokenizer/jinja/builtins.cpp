#include "engine/tokenizer/jinja/builtins.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // as in the sandbox that templates are written for

Value range(Interpreter& in, Args& args) {
  if (args.positional.empty() || args.positional.size() > 3 || !args.named.empty())
    throw Error("range takes one to three numbers");
  std::int64_t start = 0;
  std::int64_t stop = args.positional[0].as_int();
  std::int64_t step = 1;
  if (args.positional.size() > 1) {
    start = stop;
    stop = args.positional[1].as_int();
  }
  if (args.positional.size() > 2) step = args.positional[2].as_int();
  if (step == 0) throw Error("range with step 0");
  Values numbers;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<std::int64_t>(numbers.size()) == kMaxRange)
      throw Error(fmt::format("range of more than {} numbers", kMaxRange));
    in.charge(1);
    numbers.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::list(std::move(numbers));
}

Value make_dict(Interpreter&, Args& args) {
  auto result = std::make_shared<Dict>();
  if (args.positional.size() > 1) throw Error("dict takes one positional argument at most");
  if (!args.positional.empty()) {
    const Dict* other = args.positional[0].dict();
    if (other == nullptr) throw Error("dict of something that is no dict is not supported");
    *result = *other;
  }
  for (const auto& [name, value] : args.named) result->set(Value(name), value);
  return Value::dict(std::move(result));
}

Value make_namespace(Interpreter& in, Args& args) {
  in.charge(8);
  std::shared_ptr<Namespace> space = in.make_namespace();
  if (args.positional.size() > 1) throw Error("namespace takes one positional argument at most");
  if (!args.positional.empty()) {
    const Dict* dict = args.positional[0].dict();
    if (dict == nullptr) throw Error("namespace of something that is no dict is not supported");
    for (const auto& [key, value] : dict->items) space->members[key.str()] = value;
  }
  for (const auto& [name, value] : args.named) space->members[name] = value;
  return Value(space);
}

Value raise_exception(Interpreter&, Args& args) {
  ArgReader reader(args, "raise_exception");
  const Value message = reader.require("message");
  reader.done();
  throw Raised(message.str());
}

Value strftime_now(Interpreter&, Args& args) {
  ArgReader reader(args, "strftime_now");
  const Value format = reader.require("format");
  reader.done();
  if (!format.is_string()) throw Error("strftime_now: the format must be a string");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  // A result of no bytes cannot be told from one that did not fit, so the format gets one more.
  const std::string padded = *format.string() + ".";
  std::string text(padded.size() * 8 + 256, '\0');
  const std::size_t size = std::strftime(text.data(), text.size(), padded.c_str(), &local);
  if (size == 0) throw Error("strftime_now: the format is too long");
  text.resize(size - 1);
  return Value(std::move(text));
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
       {std::pair{"range", &range}, std::pair{"dict", &make_dict},
        std::pair{"namespace", &make_namespace}, std::pair{"raise_exception", &raise_exception},
        std::pair{"strftime_now", &strftime_now}})
    interpreter.set_global(name, Value::function(name, function));
}

std::string replace_text(Interpreter& in, const std::string& text, const std::string& from,
                         const std::string& to, std::int64_t count) {
  std::string out;
  std::size_t pos = 0;
  auto check = [&] {
    in.charge(1);
    if (out.size() > (16U << 20)) in.charge_text(out.size());
  };
  if (from.empty()) {  // between all characters and at both ends
    while (count != 0) {
      check();
      out += to;
      --count;
      if (pos == text.size()) return out;
      const std::size_t begin = pos;
      utf8::next(text, pos);
      out += std::string_view(text).substr(begin, pos - begin);
    }
    return out + text.substr(pos);
  }
  for (std::size_t at = text.find(from); at != std::string::npos && count != 0;
       at = text.find(from, pos)) {
    check();
    out.append(text, pos, at - pos);
    out += to;
    pos = at + from.size();
    --count;
  }
  out.append(text, pos);
  in.charge_text(out.size());
  return out;
}

Value items_of(Interpreter& in, const Value& value) {
  if (value.is_undefined()) return Value::list({});
  const Dict* dict = value.dict();
  if (dict == nullptr) throw Error(fmt::format("items of a {}", value.type_name()));
  in.charge_for(value);
  Values items;
  for (const auto& [key, member] : dict->items) items.push_back(Value::tuple({key, member}));
  return Value::list(std::move(items));
}

std::string format_percent(const std::string& format, const Value& values) {
  const Sequence* tuple = values.sequence();
  if (tuple != nullptr && !tuple->is_tuple) tuple = nullptr;
  std::size_t used = 0;
  auto next = [&]() -> const Value& {
    const std::size_t count = tuple == nullptr ? 1 : tuple->items.size();
    if (used == count) throw Error("%: not enough values for the format");
    ++used;
    return tuple == nullptr ? values : tuple->items[used - 1];
  };
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const char kind = ++i < format.size() ? format[i] : '\0';
    if (kind == '%') {
      out += '%';
    } else if (kind == 's') {
      out += next().str();
    } else if (kind == 'r') {
      out += next().repr();
    } else if (kind == 'd' || kind == 'i') {
      const Value& v = next();
      if (!v.is_number()) throw Error("%d needs a number");
      out += fmt::format("{}", v.is_float() ? truncated(v.as_double()) : v.as_int());
    } else {
      throw Error(fmt::format("% format \"%{}\" is not supported", kind));
    }
  }
  if (tuple != nullptr && used < tuple->items.size())
    throw Error("%: more values than the format takes");
  if (tuple == nullptr && used == 0 && values.dict() == nullptr)
    throw Error("%: more values than the format takes");
  return out;
}

std::string format_braces(const std::string& format, ArgReader& args) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    const bool doubled = i + 1 < format.size() && format[i + 1] == c;
    if ((c == '{' || c == '}') && doubled) {
      out += c;
      ++i;
    } else if (c == '}') {
      throw Error("format: a single '}'");
    } else if (c != '{') {
      out += c;
    } else {
      const std::size_t end = format.find('}', i);
      if (end == std::string::npos) throw Error("format: a '{' without '}'");
      const std::string field = format.substr(i + 1, end - i - 1);
      if (field.find_first_of(":!.[") != std::string::npos)
        throw Error(fmt::format("format: field \"{{{}}}\" is not supported", field));
      const bool numbered = field.find_first_not_of("0123456789") == std::string::npos;
      if (field.empty()) {
        out += args.require("a value").str();
      } else if (numbered && field.size() < 4) {
        out += args.positional(static_cast<std::size_t>(std::atoi(field.c_str()))).str();
      } else {
        out += args.named(field).str();
      }
      i = end;
    }
  }
  return out;
}

}  // namespace tandem::jinja
