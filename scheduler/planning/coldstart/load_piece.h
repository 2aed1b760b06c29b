// The pieces in which an adapter is loaded to the device.
#pragma once

#include <cstdint>

namespace tandem {

// One piece of a load: a whole layer of one adapter, or its A or B alone.
enum class PieceKind : std::uint8_t { layer, a, b };
struct LoadPiece {
  std::int32_t adapter = 0;  // index among the adapters whose loads are ordered together
  std::int32_t layer = 0;
  PieceKind kind = PieceKind::layer;
};

}  // namespace tandem
