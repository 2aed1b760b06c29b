#include "engine/tokenizer/jinja/values/budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits/bytes_text.h"
#include "engine/tokenizer/jinja/values/error.h"

namespace tandem::jinja {
namespace {

constexpr std::uint64_t kLookEveryUnits = 1U << 18;  // well under a millisecond of work

}  // namespace

void Budget::hold(std::uint64_t bytes) {
  if (bytes > limits_.held_bytes - std::min(held_, limits_.held_bytes))
    throw Error(
        fmt::format("the template's values take more than {}", size_text(limits_.held_bytes)));
  spend(kStepUnits + bytes);
  held_ += bytes;
}

void Budget::look() {
  if (spent_ > limits_.work_units)
    throw Error(
        fmt::format("the template takes more than {} steps", limits_.work_units / kStepUnits));
  if (watch_.stopped && watch_.stopped()) throw Stopped("the server is ending its renderings");
  if (watch_.now && watch_.now() > watch_.deadline) throw Error("the template takes too long");
  next_look_ = std::min(spent_ + kLookEveryUnits, limits_.work_units + 1);
}

}  // namespace tandem::jinja
