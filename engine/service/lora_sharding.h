// The setting lora_sharding: how the devices that share a model divide the work of adapters.
//
// For q, k, v, gate and up each device has the rows of B that belong to its columns, and needs all
// of x A^T. For o and down it has the columns of A that belong to its part of x, and its part of x
// A^T goes into its part of the base's sum.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tandem {

enum class LoraSharding : std::uint8_t {
  automatic,   // replicated or gathered, chosen by cost in each step for q, k, v and for gate, up
  replicated,  // each device computes all of x A^T, without communication
  gathered,    // each device computes a share of the ranks, followed by one gather
  // Like gathered; for o and down the parts of x A^T are summed as well, and each device multiplies
  // the sum by B for a share of the columns (S-LoRA, section 6). For comparison.
  s_lora,
};

inline constexpr std::array kLoraShardings = {LoraSharding::automatic, LoraSharding::replicated,
                                              LoraSharding::gathered, LoraSharding::s_lora};

constexpr std::string_view to_string(LoraSharding sharding) {
  switch (sharding) {
    case LoraSharding::automatic:
      return "auto";
    case LoraSharding::replicated:
      return "replicated";
    case LoraSharding::gathered:
      return "gathered";
    case LoraSharding::s_lora:
      return "s-lora";
  }
  return "?";
}

}  // namespace tandem
