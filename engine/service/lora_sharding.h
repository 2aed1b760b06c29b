// How devices that share a model share out what adapters compute: the setting lora_sharding.
//
// Of q, k, v, gate and up each device has those rows of B that belong to its columns, and of x A^T
// it needs all. Of o and down it has those columns of A that belong to its x, and its part of x A^T
// becomes a part of the base's sum.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

enum class LoraSharding : std::uint8_t {
  automatic,   // as replicated or as gathered, in each step for q, k, v and for gate, up: as costs
               // say
  replicated,  // each device computes all of x A^T: nothing is told
  gathered,    // each computes a share of the ranks, and one gather tells all of them
  // As gathered; and of o and down the parts of x A^T are added up, and each device multiplies the
  // sum by B for a share of the columns (S-LoRA, section 6). To compare with.
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

// Nothing: there is no such sharding.
constexpr std::optional<LoraSharding> parse_lora_sharding(std::string_view name) {
  for (const LoraSharding sharding : kLoraShardings) {
    if (to_string(sharding) == name) return sharding;
  }
  return std::nullopt;
}

}  // namespace tandem
