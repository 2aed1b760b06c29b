#include "gpu/cuda/gemm/packed/packed_gemm.h"

#include <algorithm>

#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/gemm/packed/few/few_kernels.h"
#include "gpu/cuda/gemm/packed/kernel/packed_maps.h"
#include "gpu/cuda/gemm/packed/wide/wide_kernels.h"
#include "gpu/cuda/packed/gather_columns.h"

namespace tandem::cuda {
namespace {

// Units of 32 columns that share a scale, at most the four of a slice.
int units_of(const Weight& w) {
  return static_cast<int>(std::min<std::int64_t>(w.form.group, kPackedSlice)) / 32;
}

PackedKernel kernel_of(const GemmArgs& args, const PackedPlan& plan) {
  const WeightForm& form = args.w.form;
  const DType x = args.x.dtype;
  const int rows = plan.row_tiles;
  const int cols = plan.col_tiles;
  const int units = form.group >= args.w.cols() ? 4 : units_of(args.w);
  const bool wide = plan.is_wide();
  if (form.format == WeightFormat::fp8) {
    return wide ? wide_e4m3_kernel(x, cols) : e4m3_kernel(x, rows, cols);
  }
  if (form.format == WeightFormat::codebook) {
    return wide ? wide_codebook_kernel(x, cols) : codebook_kernel(x, rows, cols);
  }
  if (form.bits == 4) {
    return wide ? wide_affine4_kernel(x, cols, units) : affine4_kernel(x, rows, cols, units);
  }
  return wide ? wide_affine8_kernel(x, cols, units) : affine8_kernel(x, rows, cols, units);
}

PackedShape shape_of(const GemmArgs& args, GemmEnd end) {
  const WeightForm& form = args.w.form;
  PackedShape shape{};
  shape.rows = static_cast<int>(args.x.rows());
  shape.in = static_cast<int>(args.w.cols());
  shape.halves = end != GemmEnd::store;
  shape.out = static_cast<int>(args.w.rows()) / (shape.halves ? 2 : 1);
  shape.bits = form.bits;
  shape.group = form.group >= args.w.cols() ? 0 : form.group;
  shape.scale_bytes = static_cast<int>(size_of(form.scales.dtype));
  shape.zeros = form.has_zeros;
  shape.codebook = form.format == WeightFormat::codebook;
  return shape;
}

// The number of clusters of `blocks` blocks that are resident at once: the same for all kernels,
// each of whose blocks takes the shared memory of a multiprocessor.
Result<int> count_clusters(int blocks, int processors, int shared_bytes) {
  const PackedKernel kernel = affine4_kernel(DType::bf16, 2, 1, 4);
  TANDEM_TRY(use_all_shared_memory(reinterpret_cast<const void*>(kernel), shared_bytes));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(blocks);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(processors / blocks * blocks);
  config.blockDim = 32 * (most_packed_warps(2, 1) + 1);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int count = 0;
  TANDEM_TRY(cuda_status(
      cudaOccupancyMaxActiveClusters(&count, reinterpret_cast<const void*>(kernel), &config),
      "asking the GPU for clusters"));
  return count;
}

}  // namespace

Result<PackedGemm> PackedGemm::create() {
  PackedGemm made;
  PackedDevice& device = made.device_;
  int gpu = 0;
  int major = 0;
  TANDEM_TRY(cuda_status(cudaGetDevice(&gpu), "finding the GPU"));
  const auto get = [&](int& value, cudaDeviceAttr attribute) {
    return cuda_status(cudaDeviceGetAttribute(&value, attribute, gpu), "asking the GPU");
  };
  int minor = 0;
  TANDEM_TRY(get(major, cudaDevAttrComputeCapabilityMajor));
  TANDEM_TRY(get(minor, cudaDevAttrComputeCapabilityMinor));
  TANDEM_TRY(get(device.processors, cudaDevAttrMultiProcessorCount));
  TANDEM_TRY(get(device.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin));
  // Plans are made for as much shared memory as Hopper has.
  constexpr int kLeastSharedBytes = 200 << 10;
  if (major < 9 || device.shared_bytes < kLeastSharedBytes) return made;
  TANDEM_ASSIGN(made.encode_, find_tensor_map_encoder());
  if (made.encode_ == nullptr) return made;
  for (std::size_t i = 0; i < device.clusters_of.size(); ++i) {
    TANDEM_ASSIGN(device.clusters_of[i],
                  count_clusters(2 << i, device.processors, device.shared_bytes));
  }
  device.wide = has_wide_kernels() && major == 9 && minor == 0;
  device.supported = true;
  return made;
}

bool PackedGemm::takes(const GemmArgs& args) const {
  const TensorView& x = args.x;
  if (!device_.supported || !args.w.arranged) return false;
  if (x.dtype != DType::f16 && x.dtype != DType::bf16) return false;
  if (x.rows() < 1 || x.rows() > (device_.wide ? kPackedMaxRows : kPackedFewRows)) return false;
  if (args.w.order != nullptr) return true;
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 &&
         (x.rows() == 1 || x.stride[0] % 8 == 0);
}

Status PackedGemm::run(const GemmArgs& args, std::byte* scratch, cudaStream_t stream, GemmEnd end) {
  const Weight& w = args.w;
  const PackedShape shape = shape_of(args, end);
  TensorView x = args.x;
  if (w.order != nullptr) {
    x = TensorView(scratch, x.dtype, {x.rows(), x.cols()});
    TANDEM_TRY(launch_gather_columns(args.x, w.order, x, stream));
  }
  PackedParams p{};
  p.plan = plan_packed_gemm(shape, device_);
  TANDEM_CHECK(p.plan.stages >= 2, "{} bytes of shared memory", device_.shared_bytes);
  p.y = args.y.data;
  p.bias = args.bias.rank > 0 ? args.bias.data : nullptr;
  p.row_scales = shape.group == 0 ? w.packed.scales : nullptr;
  p.y_stride = args.y.stride[0];
  p.rows = shape.rows;
  p.out = shape.out;
  p.zero = w.form.zero;
  p.scale_bytes = shape.scale_bytes;
  p.factor = w.form.scales.factor;
  p.summand = w.form.scales.factor * w.form.scales.added;
  p.scale_dtype = w.form.scales.dtype;
  std::ranges::copy(w.form.codebook, p.codebook);
  p.zeros = shape.zeros;
  p.y_is_f32 = args.y.dtype == DType::f32;
  p.y_is_aligned = reinterpret_cast<std::uintptr_t>(p.y) % (4 * size_of(args.y.dtype)) == 0;
  p.accumulate = args.accumulate;
  p.swiglu = shape.halves;
  p.gelu = end == GemmEnd::geglu;
  TANDEM_ASSIGN(const PackedMaps maps, packed_maps(encode_, w, x, p.plan));

  const PackedKernel kernel = kernel_of(args, p.plan);
  const auto* const address = reinterpret_cast<const void*>(kernel);
  if (std::ranges::find(prepared_, address) == prepared_.end()) {
    TANDEM_TRY(use_all_shared_memory(address, device_.shared_bytes));
    prepared_.push_back(address);
  }
  LaunchShape launch;
  launch.grid = static_cast<unsigned>(p.plan.clusters * p.plan.cluster);
  launch.block = static_cast<unsigned>(32 * (p.plan.row_warps * p.plan.column_warps + 1));
  launch.shared_bytes = static_cast<std::size_t>(p.plan.shared_bytes);
  launch.overlap = true;
  launch.cluster = static_cast<unsigned>(p.plan.cluster);
  return launch_kernel("decode GEMM by a packed weight", launch, stream, kernel, maps, p);
}

}  // namespace tandem::cuda
