// --only: the selection of a benchmark's bars.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

class BarSelection {
 public:
  // `only`: ids separated by commas, "G1,link"; empty: all of `known`. An unknown id is an error.
  static Result<BarSelection> parse(const std::string& only,
                                    const std::vector<std::string_view>& known);

  template <typename... Ids>
  bool any(Ids... ids) const {
    return ids_.empty() || (... || has(ids));
  }

 private:
  bool has(std::string_view id) const;

  std::vector<std::string> ids_;
};

}  // namespace tandem
