// Ways to compute the adapters of one batch, for comparison: the engine's operation on segments, a
// loop over the adapters, and copies of each row's adapter; and merging an adapter into the base.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gpu/device.h"

namespace tandem {

enum class LoraWay {
  segments,  // one operation for all (Punica's SGMV, S-LoRA's MBGMV)
  loop,      // one operation for each adapter
  gather,    // A and B of each row are copied, then one operation reads the copies (Gather-BMM)
};
std::string_view to_string(LoraWay way);

struct LoraWaysOptions {
  DType dtype = DType::bf16;
  std::int64_t width = 4096;  // of x and y
  std::int32_t rank = 16;     // of all adapters
  std::int32_t max_rows = 64;
};

// y += x A^T B^T for one module. One thread.
class LoraWaysBench {
 public:
  static Result<std::unique_ptr<LoraWaysBench>> create(Device& device,
                                                       const LoraWaysOptions& options);
  ~LoraWaysBench();

  // Seconds of the operation for a batch with counts[i] rows of adapter i; the median of
  // `rounds`. Its operations are recorded and replayed, so that the host's launches do not count.
  // Checks first that the result is that of `segments`: internal if it is not.
  Result<double> time(LoraWay way, std::span<const std::int32_t> counts, int rounds);
  // Bytes that a way reads and writes if each is moved once.
  double bytes(LoraWay way, std::span<const std::int32_t> counts) const;
  double flops(std::span<const std::int32_t> counts) const;

  // Seconds to add an adapter to a weight [width, width] in place: W += B A.
  Result<double> merge(int rounds);
  double merge_bytes() const;

 private:
  struct Impl;
  explicit LoraWaysBench(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Rows of each adapter in a batch by Punica's popularities: "distinct", "uniform" (the square root
// of the rows, rounded up, in equal shares), "skewed" (the same by Zipf, exponent 1.5, at least one
// row each), "identical". Not rising.
std::vector<std::int32_t> rows_by_popularity(std::string_view popularity, std::int32_t rows);

}  // namespace tandem
