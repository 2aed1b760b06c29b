#include "gpu/cuda/lora/lora.h"

#include <cstddef>
#include <optional>

#include "base/check.h"
#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/lora/kernels/bias.h"
#include "gpu/cuda/lora/kernels/outer.h"

namespace tandem::cuda {
namespace {

constexpr std::int32_t kMaxRank = 2048;  // of the plain kernel (kernels/plain.cu)

static_assert(LoraParams::kMaxModules == LoraArgs::kMaxModules);
static_assert(sizeof(LoraEntry) == sizeof(LoraMatrix) &&
              offsetof(LoraEntry, b) == offsetof(LoraMatrix, b) &&
              offsetof(LoraEntry, rank) == offsetof(LoraMatrix, rank) &&
              offsetof(LoraEntry, b_stride) == offsetof(LoraMatrix, b_stride));
static_assert(sizeof(LoraRows) == sizeof(LoraSegment) &&
              offsetof(LoraRows, first) == offsetof(LoraSegment, first) &&
              offsetof(LoraRows, count) == offsetof(LoraSegment, count));

static_assert([] {
  for (std::int32_t rank = 0; rank <= kMaxRank; ++rank) {
    for (std::int32_t shares = 1; shares <= 8; ++shares) {
      if (ranks_of_share(rank, shares) != lora_share(rank, shares)) return false;
    }
  }
  return true;
}());

LoraType type_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return LoraType::f16;
    case DType::bf16:
      return LoraType::bf16;
    default:
      TANDEM_CHECK(dtype == DType::f32, "dtype {}", to_string(dtype));
      return LoraType::f32;
  }
}

// The part that enqueue_outer() computes; nothing: enqueue_lora() does.
std::optional<OuterPart> outer_part(const LoraArgs& args) {
  switch (args.part) {
    case LoraPart::replace:
      return OuterPart::replace;
    case LoraPart::tokens:
      return OuterPart::tokens;
    case LoraPart::biases:
      return OuterPart::biases;
    default:
      return args.ids == nullptr ? std::nullopt : std::optional(OuterPart::shrink);
  }
}

bool takes_half(LoraPart part) {
  return part == LoraPart::shrink || part == LoraPart::expand;
}

}  // namespace

LoraParams lora_params(const LoraArgs& args) {
  TANDEM_CHECK(args.num_modules >= 1 && args.num_modules <= LoraArgs::kMaxModules, "{} modules",
               args.num_modules);
  TANDEM_CHECK(args.x.rank == 2 && args.max_rank <= kMaxRank, "x {}, rank {}", to_string(args.x),
               args.max_rank);
  LoraParams params;
  params.x = args.x.data;
  params.x_stride = args.x.stride[0];
  params.in = static_cast<std::int32_t>(args.x.cols());
  params.num_modules = args.num_modules;
  params.type = type_of(args.x.dtype);
  params.out_type = type_of(args.out[0].dtype);
  for (int m = 0; m < args.num_modules; ++m) {
    const TensorView& out = args.out[m];
    TANDEM_CHECK(out.rank == 2 && out.rows() == args.x.rows() && out.dtype == args.out[0].dtype &&
                     (out.dtype == args.x.dtype || out.dtype == DType::f32),
                 "out {} for x {}", to_string(out), to_string(args.x));
    params.out[m] = {out.data, out.stride[0], static_cast<std::int32_t>(out.cols())};
  }
  params.table = reinterpret_cast<const LoraEntry*>(args.table);
  params.slot_stride = args.slot_stride;
  params.page_base = args.pages.base;
  params.page_ids = args.pages.ids;
  params.page_slot_stride = args.pages.slot_stride;
  params.page_shift = args.pages.shift;
  params.segments = reinterpret_cast<const LoraRows*>(args.segments);
  params.num_segments = args.num_segments;
  params.rows = args.rows;
  params.num_rows = args.num_rows;
  params.max_rank = args.max_rank;
  params.max_count = args.max_count;
  if (!takes_half(args.part)) return params;
  const bool shrinks = args.part == LoraPart::shrink;
  params.half = shrinks ? LoraHalf::shrink : LoraHalf::expand;
  params.v = static_cast<float*>(args.v.data);
  params.v_stride = args.v.stride[0];
  params.v_width =
      static_cast<std::int32_t>(args.v.cols()) / args.num_modules / (shrinks ? 1 : args.num_shares);
  params.num_shares = args.num_shares;
  params.share = args.share;
  params.first_column = args.first_column;
  return params;
}

Status launch_lora(const LoraArgs& args, cudaStream_t stream, LoraKernel kernel, bool overlap) {
  if (const std::optional<OuterPart> part = outer_part(args)) {
    OuterParams outer{args.ids, args.id_scale, *part};
    for (int m = 0; m < args.num_modules; ++m) outer.base_bias[m] = args.base_bias[m].data;
    return cuda_status(enqueue_outer(lora_params(args), outer, stream), "lora");
  }
  const LoraParams params = lora_params(args);
  TANDEM_TRY(cuda_status(enqueue_lora(params, kernel, overlap, stream), "lora"));
  if (!args.adds_bias || args.part == LoraPart::shrink) return {};
  return cuda_status(enqueue_bias(params, stream), "lora biases");
}

}  // namespace tandem::cuda
