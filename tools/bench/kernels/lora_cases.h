// The LoRA cases for which there are figures of others (tests/data/peer_kernels.csv), and the
// distribution of a case's rows over its adapters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"

namespace tandem::kernels {

// y += x A B for `tokens` rows that use `adapters` distinct adapters.
struct LoraCase {
  std::string kind;  // "decode", "prefill"
  std::int32_t in = 0;
  std::int32_t out = 0;
  std::int32_t rank = 0;
  std::int32_t tokens = 0;
  std::string popularity;  // distinct, uniform, skewed, identical; seg4x128 for prefill
  std::int32_t adapters = 0;
  double bytes = 0;  // A and B of each adapter, x, and y read and written
  double best_us = 0;
  std::string best_peer;

  std::string name() const;  // "4096x1024 r64 n32 distinct"
  double adapter_bytes() const;
};

// Reads a file in the format of data/peer_kernels.csv; columns are found by their names in line 1.
Result<std::vector<LoraCase>> read_lora_cases(const std::filesystem::path& path);

// Rows per adapter in falling order: equal shares, or Zipf (exponent 1.5) with at least one each.
std::vector<std::int32_t> share_rows(const LoraCase& lora_case);

}  // namespace tandem::kernels
