// The LoRA cases that others were measured on (tests/data/peer_kernels.csv), and how a case's rows
// are shared out among its adapters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"

namespace tandem::kernels {

// y += x A B for `tokens` rows, `adapters` of them distinct.
struct LoraCase {
  std::string kind;  // "decode", "prefill"
  std::int32_t in = 0;
  std::int32_t out = 0;
  std::int32_t rank = 0;
  std::int32_t tokens = 0;
  std::string popularity;  // distinct, uniform, skewed, identical; seg4x128 for prefill
  std::int32_t adapters = 0;
  double bytes = 0;  // A and B of each adapter, x, y read and written
  double best_us = 0;
  std::string best_peer;

  std::string name() const;  // "4096x1024 r64 n32 distinct"
  double adapter_bytes() const;
};

// The rows of a file as data/peer_kernels.csv: columns by the names in its first line.
Result<std::vector<LoraCase>> read_lora_cases(const std::filesystem::path& path);

// Rows of each adapter, most first: equal shares, or Zipf of exponent 1.5 with at least one each.
std::vector<std::int32_t> share_rows(const LoraCase& lora_case);

}  // namespace tandem::kernels
