// The places of adapters' matrices and vectors, as device operations (gpu/ops.h) read them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

// One adapter's delta for one module of one layer: delta = x A^T B^T with A [rank, in] and
// B [out, rank] as PEFT stores them, the scale folded into B. Rows of B are `b_stride` elements
// apart, rows of A `in` elements, both at least 16-byte aligned when `in` allows; A and B begin at
// multiples of 64 bytes.
struct LoraMatrix {
  std::uint64_t a = 0;  // [rank, in], dtype of x: an address, or a byte index (LoraPages)
  // [out, b_stride], dtype of x; columns past `rank` are zero, but for a bias (base/lora_rows.h)
  std::uint64_t b = 0;
  std::int32_t rank = 0;  // 0: the adapter does not adapt this module
  std::int32_t b_stride = 0;
};

// Adapters that lie in chunks of a pool, in any order (S-LoRA's Unified Paging). Byte i of slot s
// is at base + (ids[s * slot_stride + (i >> shift)] << shift) + (i & (2^shift - 1)); LoraMatrix's a
// and b are such indices i. Chunks are at least 4 KiB, so 64 aligned bytes never straddle two.
struct LoraPages {
  std::byte* base = nullptr;          // null: LoraMatrix holds addresses
  const std::int32_t* ids = nullptr;  // [slots, slot_stride], device memory
  std::int64_t slot_stride = 0;
  std::int32_t shift = 0;
};

// Vectors of adapters' own, each an f32 of every row of a B (base/lora_rows.h): that of row t is in
// table[slots[t] * slot_stride], if slots[t] is not -1 and the matrix there has a rank.
struct OwnVectors {
  const LoraMatrix* table = nullptr;  // already offset to the layer's module; null: there are none
  std::int64_t slot_stride = 0;       // matrices per slot
  LoraPages pages;
  const std::int32_t* slots = nullptr;  // [T], device memory
};

}  // namespace tandem
