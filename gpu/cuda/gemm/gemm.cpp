#include "gpu/cuda/gemm/gemm.h"

#include <algorithm>
#include <utility>

#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/packed/arrange.h"
#include "gpu/cuda/packed/unpack.h"

namespace tandem::cuda {
namespace {

// The types that our kernels and cuBLASLt combine, in addition to check_args().
void check_types(const GemmArgs& args) {
  TANDEM_CHECK(args.y.dtype == args.x.dtype || args.y.dtype == DType::f32, "y {} for x {}",
               to_string(args.y), to_string(args.x));
  TANDEM_CHECK(args.bias.rank == 0 || args.bias.dtype == args.x.dtype, "bias {} for {}",
               to_string(args.bias), to_string(args.x));
}

// Half of an H200's L2: what has been dequantised is still there when it is multiplied.
constexpr std::size_t kScratchBytes = std::size_t{32} << 20;

}  // namespace

Result<std::unique_ptr<Gemm>> Gemm::create() {
  TANDEM_ASSIGN(std::unique_ptr<LtGemm> lt, LtGemm::create());
  TANDEM_ASSIGN(const SkinnyDevice skinny, prepare_skinny_gemm());
  TANDEM_ASSIGN(const WarpgroupDevice warpgroup, prepare_warpgroup_gemm());
  TANDEM_ASSIGN(PackedGemm packed, PackedGemm::create());
  return std::unique_ptr<Gemm>(new Gemm(std::move(lt), skinny, warpgroup, std::move(packed)));
}

Status Gemm::prepare_scratch() {
  if (scratch_ != nullptr) return {};
  // Without this mode a thread that records may not allocate.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  TANDEM_TRY(cuda_status(cudaThreadExchangeStreamCaptureMode(&mode), "a recording's memory"));
  Result<DeviceMemory> made =
      allocate_device_memory(kScratchBytes, "allocating the workspace of packed weights");
  TANDEM_TRY(cuda_status(cudaThreadExchangeStreamCaptureMode(&mode), "a recording's memory"));
  if (!made) return made.status();
  scratch_ = std::move(made).value();
  return {};
}

Status Gemm::arrange(Weight& weight, cudaStream_t stream) {
  TANDEM_TRY(prepare_scratch());
  const std::size_t needed = bytes_to_arrange(weight);
  if (needed <= kScratchBytes) return arrange_weight(weight, scratch_.get(), stream);
  // A head of a large vocabulary, once when it is loaded.
  TANDEM_ASSIGN(const DeviceMemory memory,
                allocate_device_memory(needed, "allocating memory to arrange scales in"));
  return arrange_weight(weight, memory.get(), stream);
}

Status Gemm::run_unpacked(const GemmArgs& args, cudaStream_t stream) {
  const std::int64_t in = args.w.cols();
  std::int64_t fits = static_cast<std::int64_t>(kScratchBytes / size_of(args.x.dtype)) /
                      std::max<std::int64_t>(in, 1);
  if (fits > 64) fits = fits / 64 * 64;  // slices of y begin at aligned columns
  if (fits == 0) return error(StatusCode::internal, "a weight of {} columns", in);
  // Slices of equal size have one algorithm.
  const std::int64_t slices = (args.w.rows() + fits - 1) / fits;
  const std::int64_t at_once = ((args.w.rows() + slices - 1) / slices + 63) / 64 * 64;
  const std::int64_t most = std::min(at_once, fits);
  for (std::int64_t first = 0; first < args.w.rows(); first += most) {
    const std::int64_t rows = std::min(most, args.w.rows() - first);
    const TensorView slice(scratch_.get(), args.x.dtype, {rows, in});
    TANDEM_TRY(launch_unpack(args.w, first, slice, stream));
    GemmArgs product = args;
    product.w = slice;
    product.y = args.y.slice_cols(first, rows);
    if (args.bias.rank > 0) product.bias = args.bias.slice_cols(first, rows);
    // Our own kernels would read the slice before it is written.
    TANDEM_TRY(lt_->run(product, stream));
  }
  return {};
}

Status Gemm::run(const GemmArgs& args, cudaStream_t stream) {
  check_types(args);
  if (args.y.num_elements() == 0) return {};
  if (!args.w.is_dense()) {
    TANDEM_TRY(prepare_scratch());
    return packed_.takes(args) ? packed_.run(args, scratch_.get(), stream)
                               : run_unpacked(args, stream);
  }
  // Our own kernels are used wherever they can be; their header comments have the measurements.
  if (skinny_.supported && skinny_gemm_takes(args)) {
    return launch_skinny_gemm(args, skinny_, stream);
  }
  if (warpgroup_.supported && warpgroup_gemm_takes(args)) {
    return launch_warpgroup_gemm(args, warpgroup_, stream);
  }
  return lt_->run(args, stream);
}

Status Gemm::run(const GemmSwigluArgs& args, cudaStream_t stream) {
  const GemmArgs product{args.x, args.w, {}, args.gate_up};
  check_types(product);
  const GemmArgs both{args.x, args.w, {}, args.out};
  const bool may_fuse = args.out.dtype == args.x.dtype;
  const GemmEnd end = args.activation == Activation::silu ? GemmEnd::swiglu : GemmEnd::geglu;
  if (!args.w.is_dense()) {
    if (args.out.num_elements() == 0) return {};
    TANDEM_TRY(prepare_scratch());
    if (may_fuse && packed_.takes(product)) {
      return packed_.run(both, scratch_.get(), stream, end);
    }
    TANDEM_TRY(run(product, stream));
    return launch_swiglu({args.gate_up, args.out, args.activation}, stream);
  }
  if (may_fuse && skinny_.supported && skinny_gemm_takes(both)) {
    return launch_skinny_gemm(both, skinny_, stream, end);
  }
  if (may_fuse && warpgroup_.supported && warpgroup_gemm_ends_in_swiglu(both, warpgroup_)) {
    return launch_warpgroup_gemm(both, warpgroup_, stream, end);
  }
  TANDEM_TRY(run(product, stream));
  return launch_swiglu({args.gate_up, args.out, args.activation}, stream);
}

Status Gemm::tune(std::span<const GemmArgs> like, cudaStream_t stream) {
  if (like.empty()) return {};
  for (const GemmArgs& args : like) check_types(args);
  if (!like.front().w.is_dense()) {
    // There is nothing to choose, but kernels load at their first use, and cuBLASLt has an
    // algorithm for each range of rows.
    const std::int64_t most = like.front().x.rows();
    for (std::int64_t rows = 1; rows <= most; rows += rows < 64 ? 1 : 64) {
      GemmArgs args = like.front();
      args.x = args.x.slice_rows(0, rows);
      args.y = args.y.slice_rows(0, rows);
      TANDEM_TRY(run(args, stream));
    }
    return cuda_status(cudaStreamSynchronize(stream), "products by a packed weight");
  }
  GemmArgs few = like.front();
  few.x = few.x.slice_rows(0, std::min<std::int64_t>(few.x.rows(), 1));
  few.y = few.y.slice_rows(0, few.x.rows());
  int ours = 0;  // the maximum number of rows for our own kernels
  if (skinny_.supported && skinny_gemm_takes(few)) {
    ours = warpgroup_.supported && warpgroup_gemm_takes(few) ? kWarpgroupMaxRows : kSkinnyMaxRows;
  }
  return lt_->tune(like, ours + 1, stream);
}

}  // namespace tandem::cuda
