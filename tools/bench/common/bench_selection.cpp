#include "tools/bench/common/bench_selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace tandem {

Result<BarSelection> BarSelection::parse(const std::string& only,
                                         const std::vector<std::string_view>& known) {
  BarSelection selection;
  std::stringstream text(only);
  for (std::string id; std::getline(text, id, ',');) {
    if (std::find(known.begin(), known.end(), id) == known.end()) {
      return invalid("only: '{}' is none of {}", id, fmt::join(known, ", "));
    }
    selection.ids_.push_back(id);
  }
  return selection;
}

bool BarSelection::has(std::string_view id) const {
  return std::find(ids_.begin(), ids_.end(), id) != ids_.end();
}

}  // namespace tandem
