// How the weights of one module of a checkpoint are quantised, as its config.json says.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem {

// The places of a module's numbers in its tensors. MODULE stands for the module's name.
enum class Packing : std::uint8_t {
  words,     // MODULE.weight_packed: 32-bit words along the input (compressed-tensors)
  int8,      // MODULE.weight: I8 (compressed-tensors)
  fp8,       // MODULE.weight: F8_E4M3 (compressed-tensors, fp8)
  gptq,      // MODULE.qweight: 32-bit words along the input, transposed
  awq,       // MODULE.qweight: 32-bit words along the output, transposed
  bnb_4bit,  // MODULE.weight: two codes in a byte, flat (bitsandbytes)
  bnb_int8,  // MODULE.weight: I8, with MODULE.SCB (bitsandbytes)
  mxfp4,     // MODULE_blocks and MODULE_scales
};

// The elements that share a scale.
enum class ScalesBy : std::uint8_t { tensor, channel, group, block };

struct ModuleScheme {
  Packing packing = Packing::words;
  int bits = 4;  // of words and gptq: 4 or 8
  ScalesBy scales = ScalesBy::group;
  std::int64_t group = 0;  // columns that share a scale; 0: all of them
  std::int64_t row_block = 0, col_block = 0;
  bool symmetric = true;           // no zeros (words, int8)
  bool needs_order = false;        // the group of each column is in the file (words, gptq)
  bool takes_1_off_zeros = false;  // where they are stored (gptq, first version)
  std::string_view codebook = {};  // "nf4" or "fp4" (bnb_4bit)
  friend bool operator==(const ModuleScheme&, const ModuleScheme&) = default;
};

}  // namespace tandem
