#include "gpu/cuda/gemm/gemm.h"

#include "gpu/cuda/elementwise/elementwise.h"

#include <algorithm>
#include <utility>

namespace tandem::cuda {
namespace {

// The types that our kernels and cuBLASLt combine, in addition to check_args().
void check_types(const GemmArgs& args) {
  TANDEM_CHECK(args.w.is_dense(), "weights of format '{}', loaded all the same",
               to_string(args.w.format()));
  TANDEM_CHECK(args.y.dtype == args.x.dtype || args.y.dtype == DType::f32, "y {} for x {}",
               to_string(args.y), to_string(args.x));
  TANDEM_CHECK(args.bias.rank == 0 || args.bias.dtype == args.x.dtype, "bias {} for {}",
               to_string(args.bias), to_string(args.w.data));
}

}  // namespace

Result<std::unique_ptr<Gemm>> Gemm::create() {
  TANDEM_ASSIGN(std::unique_ptr<LtGemm> lt, LtGemm::create());
  TANDEM_ASSIGN(const SkinnyDevice skinny, prepare_skinny_gemm());
  TANDEM_ASSIGN(const WarpgroupDevice warpgroup, prepare_warpgroup_gemm());
  return std::unique_ptr<Gemm>(new Gemm(std::move(lt), skinny, warpgroup));
}

Status Gemm::run(const GemmArgs& args, cudaStream_t stream) {
  check_types(args);
  if (args.y.num_elements() == 0) return {};
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
