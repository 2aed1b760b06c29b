// out[r] = row r of a packed weight. Grid: rows x chunks of a row, eight columns a thread; bound by
// writing `out` (16-bit numbers: four times the bytes of 4-bit codes).
#include <cstdint>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/packed/layout.h"
#include "gpu/cuda/packed/unpack.h"
#include "gpu/cuda/packed/unpack_arranged.h"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kColumns = 8;  // a thread's

struct UnpackParams {
  WeightForm form;
  PackedArrays arrays;
  const float* table;
  const std::int32_t* order;
  std::int64_t rows, cols, groups;
  bool arranged;
  bool words;  // 8 codes of a row lie in aligned words

  const std::int32_t* ids;  // null: out[r] is row first_row + r
  std::int64_t first_row;   // or the id of row 0
  std::int64_t vocab;
  void* out;
  std::int64_t out_stride;
  float scale;
  bool vectors;  // 8 numbers of `out` lie in aligned vectors
};

__device__ __forceinline__ float value_at(const std::byte* values, DType dtype, std::int64_t i) {
  if (dtype == DType::f32) return reinterpret_cast<const float*>(values)[i];
  if (dtype == DType::f16) return to_float(reinterpret_cast<const __half*>(values)[i]);
  return to_float(reinterpret_cast<const __nv_bfloat16*>(values)[i]);
}

// The number of a group (ScaleForm).
__device__ __forceinline__ float number_of(const UnpackParams& p, const ScaleForm& form,
                                           const std::byte* values, const std::uint8_t* codes,
                                           std::int64_t row, std::int64_t group) {
  float number = 1;
  if (form.has_values) {
    const std::int64_t in_row = (p.groups + form.nested - 1) / form.nested;
    const std::int64_t at = group / form.nested;
    number = value_at(values, form.dtype, p.arranged ? at * p.rows + row : row * in_row + at);
  }
  if (form.codes != ScaleForm::Codes::none) {
    const std::uint8_t code = codes[row * p.groups + group];
    number *= form.codes == ScaleForm::Codes::u8 ? static_cast<float>(code)
              : form.codes == ScaleForm::Codes::i8
                  ? static_cast<float>(static_cast<std::int8_t>(code))
                  : p.table[code];
  }
  return form.factor * (number + form.added);
}

__device__ __forceinline__ float e4m3(unsigned code) {
  // The exponent and the fraction at a float's place; a factor makes up for the other bias.
  const float size = __uint_as_float((code & 0x7fU) << 20) * 0x1p120F;
  return (code & 0x80U) == 0 ? size : -size;
}

// The codes at 8 places of a row of which `count` exist.
__device__ __forceinline__ void load_codes(const UnpackParams& p, std::int64_t row,
                                           std::int64_t place, int count,
                                           unsigned (&codes)[kColumns]) {
  const int bits = p.form.bits;
  if (p.arranged) {
    const int c = static_cast<int>(place % kPackedBlock);
    const int pair = c % 32 / 16 * 2 + c % 16 / 8;
    const auto* const words = reinterpret_cast<const std::uint32_t*>(p.arrays.low) +
                              (row * p.cols + place - c) * bits / 32;
    const bool is_codebook = p.form.format == WeightFormat::codebook;
    const int shift = bits == 8 ? pair % 2 * 8 : is_codebook ? pair * 8 : pair * 4;
    const int next = is_codebook ? shift + 4 : shift + 16;
    const unsigned mask = bits == 8 ? 255U : 15U;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const int at = bits == 4 ? arranged_nibble(c + 2 * t) / 8 : arranged_byte(c + 2 * t) / 4;
      const std::uint32_t word = words[at];
      codes[2 * t] = word >> shift & mask;
      codes[2 * t + 1] = word >> next & mask;
    }
    return;
  }
  if (bits == 8) {
    const std::uint8_t* const from = p.arrays.low + row * p.cols + place;
    if (p.words) {
      const uint2 v = *reinterpret_cast<const uint2*>(from);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) codes[i] = (i < 4 ? v.x : v.y) >> (i % 4 * 8) & 255U;
      return;
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) codes[i] = i < count ? from[i] : 0U;
    return;
  }
  const std::uint8_t* const from = p.arrays.low + row * ((p.cols + 1) / 2) + place / 2;
  if (p.words) {
    const std::uint32_t v = *reinterpret_cast<const std::uint32_t*>(from);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) codes[i] = v >> (i * 4) & 15U;
  } else {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) codes[i] = i < count ? from[i / 2] >> (i % 2 * 4) & 15U : 0U;
  }
  if (bits == 4) return;
  const int above = bits - 4;
  const std::uint8_t* const high =
      p.arrays.high + row * ((p.cols * above + 7) / 8) + place * above / 8;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    if (i >= count) continue;
    const unsigned part = high[i * above / 8] >> (i * above % 8);
    codes[i] |= (part & ((1U << above) - 1U)) << 4;
  }
}

template <typename Out>
__global__ void unpack(const __grid_constant__ UnpackParams p) {
  allow_next_kernel();
  const std::int64_t place =
      (std::int64_t{blockIdx.y} * kThreads + threadIdx.x) * std::int64_t{kColumns};
  if (place >= p.cols) return;
  wait_for_previous_kernels();
  std::int64_t row = p.first_row + blockIdx.x;
  if (p.ids != nullptr) {
    const std::int32_t id = p.ids[blockIdx.x];
    if (id < 0 || id >= p.vocab) __trap();
    row = id - p.first_row;
  }
  const auto count = static_cast<int>(min(std::int64_t{kColumns}, p.cols - place));
  float values[kColumns] = {};
  if (row >= 0 && row < p.rows) {
    unsigned codes[kColumns];
    load_codes(p, row, place, count, codes);
    const auto* const codebook = reinterpret_cast<const float*>(&p.form.codebook);
    const auto size = static_cast<unsigned>(p.form.group);
    unsigned group = static_cast<unsigned>(place) / size - 1;
    unsigned left = 0;  // columns of the group
    float scale = 0;
    float offset = 0;
    int zero = 0;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (i >= count) continue;
      if (left-- == 0) {
        ++group;
        left = (i == 0 ? size - static_cast<unsigned>(place) % size : size) - 1;
        scale = number_of(p, p.form.scales, p.arrays.scales, p.arrays.scale_codes, row, group);
        if (p.form.offsets.has_values || p.form.offsets.codes != ScaleForm::Codes::none) {
          offset =
              number_of(p, p.form.offsets, p.arrays.offsets, p.arrays.offset_codes, row, group);
        }
        zero = p.form.zero;
        if (p.form.has_zeros) {
          zero += p.arrays.zeros[p.arranged ? group * p.rows + row : row * p.groups + group];
        }
      }
      values[i] = p.form.format == WeightFormat::codebook ? scale * codebook[codes[i] & 15U]
                  : p.form.format == WeightFormat::fp8
                      ? scale * e4m3(codes[i])
                      : scale * static_cast<float>(static_cast<int>(codes[i]) - zero) - offset;
      values[i] *= p.scale;
    }
  }
  Out* const to = static_cast<Out*>(p.out) + blockIdx.x * p.out_stride;
  if (p.vectors) {
    constexpr int kPer = Vec16<Out>::kSize;
#pragma unroll
    for (int part = 0; part < kColumns / kPer; ++part) {
      Vec16<Out> v;
#pragma unroll
      for (int i = 0; i < kPer; ++i) v.element[i] = from_float<Out>(values[part * kPer + i]);
      reinterpret_cast<Vec16<Out>*>(to + place)[part] = v;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    if (i >= count) continue;
    to[p.order == nullptr ? place + i : p.order[place + i]] = from_float<Out>(values[i]);
  }
}

UnpackParams params_of(const Weight& weight, const TensorView& out) {
  const auto aligned = [](const void* at, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(at) % bytes == 0;
  };
  UnpackParams p{};
  p.form = weight.form;
  p.arrays = weight.packed;
  p.table = weight.table;
  p.order = weight.order;
  p.rows = weight.rows();
  p.cols = weight.cols();
  p.groups = weight.form.groups(p.cols);
  p.arranged = weight.arranged;
  p.words = p.cols % kColumns == 0 && aligned(weight.packed.low, 8);
  p.out = out.data;
  p.out_stride = out.stride[0];
  p.scale = 1;
  p.vectors = p.order == nullptr && p.cols % kColumns == 0 && aligned(out.data, 16) &&
              p.out_stride % kColumns == 0;
  return p;
}

Status launch(const UnpackParams& p, const TensorView& out, cudaStream_t stream) {
  if (out.num_elements() == 0) return {};
  constexpr std::int64_t kOfBlock = std::int64_t{kThreads} * kColumns;
  const dim3 grid(static_cast<unsigned>(out.rows()),
                  static_cast<unsigned>((p.cols + kOfBlock - 1) / kOfBlock));
  return dispatch_dtype(out.dtype, [&](auto type) {
    return launch_kernel("rows of a packed weight",
                         {.grid = grid, .block = dim3(kThreads), .overlap = true}, stream,
                         unpack<typename decltype(type)::type>, p);
  });
}

}  // namespace

Status launch_unpack(const Weight& weight, std::int64_t first_row, const TensorView& out,
                     cudaStream_t stream) {
  if (can_unpack_arranged(weight, out)) {
    return launch_unpack_arranged(weight, first_row, out, stream);
  }
  UnpackParams p = params_of(weight, out);
  p.first_row = first_row;
  return launch(p, out, stream);
}

Status launch_packed_embed(const EmbedArgs& args, cudaStream_t stream) {
  UnpackParams p = params_of(args.table, args.out);
  p.ids = args.ids;
  p.first_row = args.first_id;
  p.vocab = args.vocab == 0 ? args.table.rows() : args.vocab;
  p.scale = args.scale;
  return launch(p, args.out, stream);
}

}  // namespace tandem::cuda
