// In which pieces an adapter travels to the device.
#pragma once

#include <cstdint>

namespace tandem {

// One piece of a load: all of a layer of one adapter, or one part of it.
enum class PieceKind : std::uint8_t { layer, a, b };
struct LoadPiece {
  std::int32_t adapter = 0;  // index among the adapters whose loads are ordered together
  std::int32_t layer = 0;
  PieceKind kind = PieceKind::layer;
};

}  // namespace tandem
