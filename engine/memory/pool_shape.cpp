#include "engine/memory/pool_shape.h"

namespace tandem {

std::int64_t PoolShape::longest_with(std::int64_t pages) const {
  std::int64_t fits = 0;  // in pages of a table
  std::int64_t too_long = pages + 1;
  while (too_long - fits > 1) {
    const std::int64_t middle = fits + (too_long - fits) / 2;
    (pages_for(middle * page_tokens) <= pages ? fits : too_long) = middle;
  }
  return fits * page_tokens;
}

}  // namespace tandem
