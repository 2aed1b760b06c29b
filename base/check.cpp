#include "base/check.h"

#include <algorithm>
#include <cstdlib>

#include "base/stderr_text.h"

namespace tandem {

// Formats into a local buffer, because the failed check may be one about memory.
void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  char text[2048];
  const auto end = fmt::format_to_n(text, sizeof text - 1, "{}:{}: check failed: {}{}{}", file,
                                    line, condition, message.empty() ? "" : ": ", message);
  std::size_t size = std::min(end.size, sizeof text - 1);
  text[size++] = '\n';
  constexpr int kPatienceMs = 200;
  say_on_stderr({text, size}, kPatienceMs);
  std::abort();
}

}  // namespace tandem
