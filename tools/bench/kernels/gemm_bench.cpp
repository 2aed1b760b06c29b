#include "tools/bench/kernels/gemm_bench.h"

#include <algorithm>
#include <cmath>

#include "gpu/cuda/base/cuda_status.h"
#include "tools/bench/kernels/gemm_reference.h"

namespace tandem::kernels {
namespace {

using cuda::cuda_status;

// Several times the L2 cache, and room for enough copies of the largest matrix (235 MB).
constexpr std::size_t kWeightBytes = std::size_t{1440} << 20;
constexpr std::size_t kRowBytes = std::size_t{16} << 20;
constexpr int kMaxCopies = 24;
// A bf16 result may round to either neighbour; a different order of summation changes less.
constexpr float kAbsolute = 2e-4F;
constexpr float kRelative = 0x1p-7F;
constexpr float kF32Relative = 1e-4F;
constexpr float kWeightScale = 0.02F;

}  // namespace

std::string GemmCase::name() const {
  return fmt::format("{} {} n{}", model, product, rows);
}

double GemmCase::bytes() const {
  const double y = residual ? 8.0 : 2.0;
  return 2.0 * in * out + 2.0 * rows * in + y * rows * out;
}

std::vector<GemmCase> gemm_cases() {
  std::vector<GemmCase> cases;
  const GemmCase products[] = {
      {"llama-2-7b", "qkv", 4096, 12288, false},     {"llama-2-7b", "o", 4096, 4096, true},
      {"llama-2-7b", "gate_up", 4096, 22016, false}, {"llama-2-7b", "down", 11008, 4096, true},
      {"llama-3-8b", "qkv", 4096, 6144, false},      {"llama-3-8b", "o", 4096, 4096, true},
      {"llama-3-8b", "gate_up", 4096, 28672, false}, {"llama-3-8b", "down", 14336, 4096, true}};
  for (const GemmCase& product : products) {
    for (const std::int32_t rows : {1, 8, 32, 48, 64}) {
      cases.push_back(product);
      cases.back().rows = rows;
    }
  }
  return cases;
}

Result<GemmBench> GemmBench::create(GpuBench& gpu) {
  GemmBench bench(gpu);
  TANDEM_ASSIGN(bench.library_, cuda::LtGemm::create());
  TANDEM_ASSIGN(bench.skinny_, cuda::prepare_skinny_gemm());
  TANDEM_ASSIGN(bench.warpgroup_, cuda::prepare_warpgroup_gemm());
  TANDEM_ASSIGN(bench.weights_, GpuMemory::create(kWeightBytes));
  TANDEM_ASSIGN(bench.x_, GpuMemory::create(kRowBytes));
  TANDEM_ASSIGN(bench.y_, GpuMemory::create(kRowBytes));
  TANDEM_ASSIGN(bench.before_, GpuMemory::create(kRowBytes + 256));
  TANDEM_TRY(
      fill_random_bf16(bench.weights_.data(), kWeightBytes / 2, 21, kWeightScale, gpu.stream()));
  TANDEM_TRY(fill_random_bf16(bench.x_.data(), kRowBytes / 2, 22, 1, gpu.stream()));
  TANDEM_TRY(gpu.synchronize("filling memory"));
  return bench;
}

GemmArgs GemmBench::args_of(const GemmCase& c, int copy) const {
  const std::size_t weight_bytes =
      std::size_t{2} * static_cast<std::size_t>(c.in) * static_cast<std::size_t>(c.out);
  GemmArgs args;
  args.x = TensorView(x_.data(), DType::bf16, {c.rows, c.in});
  args.w = TensorView(weights_.data() + static_cast<std::size_t>(copy) * weight_bytes, DType::bf16,
                      {c.out, c.in});
  args.y = TensorView(y_.data(), c.residual ? DType::f32 : DType::bf16, {c.rows, c.out});
  args.accumulate = c.residual;
  return args;
}

Status GemmBench::enqueue(const GemmArgs& args, bool own) {
  if (!own) return library_->run(args, gpu_->stream());
  return cuda::skinny_gemm_takes(args)
             ? cuda::launch_skinny_gemm(args, skinny_, gpu_->stream())
             : cuda::launch_warpgroup_gemm(args, warpgroup_, gpu_->stream());
}

Result<GpuTimes> GemmBench::time(const GemmCase& c, bool own, int replays) {
  const cudaStream_t stream = gpu_->stream();
  const GemmArgs first = args_of(c, 0);
  const std::size_t y_bytes =
      static_cast<std::size_t>(first.y.num_elements()) * size_of(first.y.dtype);
  auto* const worst = reinterpret_cast<float*>(before_.data() + kRowBytes);
  // Filled with random numbers instead of zeros, so that an element that is not written is noticed.
  TANDEM_TRY(fill_random_bf16(y_.data(), y_bytes / 2, 23, 1, stream));
  TANDEM_TRY(cuda_status(
      cudaMemcpyAsync(before_.data(), y_.data(), y_bytes, cudaMemcpyDeviceToDevice, stream),
      "copying"));
  TANDEM_TRY(enqueue(first, own));
  TANDEM_TRY(judge_gemm(first, before_.data(), kAbsolute, c.residual ? kF32Relative : kRelative,
                        worst, stream));
  float error = 0;
  TANDEM_TRY(cuda_status(
      cudaMemcpyAsync(&error, worst, sizeof error, cudaMemcpyDeviceToHost, stream), "copying"));
  TANDEM_TRY(gpu_->synchronize("checking a GEMM"));
  last_error_ = error;
  if (!(error <= 1)) {
    return tandem::error(StatusCode::internal, "{} by {} is wrong by {} times the tolerance",
                         c.name(), own ? "our kernel" : "cuBLASLt", error);
  }
  const auto weight_bytes = 2.0 * c.in * c.out;
  const int copies = std::min(kMaxCopies, static_cast<int>(kWeightBytes / weight_bytes));
  return gpu_->time(copies, replays, [&](int i) { return enqueue(args_of(c, i), own); });
}

Result<GemmTimes> GemmBench::run(const GemmCase& gemm_case, int replays) {
  GemmTimes times;
  TANDEM_ASSIGN(times.library, time(gemm_case, false, replays));
  const GemmArgs args = args_of(gemm_case, 0);
  times.own_chosen = cuda::skinny_gemm_takes(args)
                         ? skinny_.supported
                         : warpgroup_.supported && cuda::warpgroup_gemm_takes(args);
  if (times.own_chosen) {
    TANDEM_ASSIGN(times.own, time(gemm_case, true, replays));
  }
  return times;
}

}  // namespace tandem::kernels
