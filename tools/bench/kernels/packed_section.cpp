#include "tools/bench/kernels/packed_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/packed/layout.h"

namespace tandem::kernels {
namespace {

using cuda::cuda_status;

constexpr std::size_t kWeightBytes = std::size_t{1440} << 20;  // several times the L2 cache
constexpr std::size_t kRowBytes = std::size_t{128} << 20;
constexpr int kMaxWeights = 24;
constexpr int kManyRows = 65;  // the fewest that are multiplied by dequantised weights
// The share of the largest result by which results may differ: dequantised weights are rounded to
// bf16.
constexpr float kPackedTolerance = 0x1p-6F;

struct Form {
  std::string name;
  WeightForm form;
};
std::vector<Form> forms() {
  const ScaleForm bf16_scales{.has_values = true, .dtype = DType::bf16};
  constexpr std::int32_t kWholeRows = 1 << 30;
  std::vector<Form> all = {
      {"fp8", {WeightFormat::fp8, 8, kWholeRows, bf16_scales}},
      {"fp8 block", {WeightFormat::fp8, 8, 128, bf16_scales}},
      {"w8 g128", {WeightFormat::affine, 8, 128, bf16_scales}},
      {"w4 g128", {WeightFormat::affine, 4, 128, bf16_scales}},
      {"w4 g128 zeros", {WeightFormat::affine, 4, 128, bf16_scales}},
      {"w4 g32", {WeightFormat::affine, 4, 32, bf16_scales}},
      {"nf4", {WeightFormat::codebook, 4, 64, {.has_values = true}}},
  };
  for (Form& each : all) {
    if (each.form.format == WeightFormat::affine) each.form.zero = each.form.bits == 4 ? 8 : 128;
    for (std::size_t i = 0; i < 16; ++i) {
      each.form.codebook[i] = std::sinh((static_cast<float>(i) - 7.3F) / 4) / 4;
    }
  }
  all[4].form.has_zeros = true;
  all[4].form.zero = 1;
  return all;
}

struct Case {
  Form form;
  std::string product;
  std::int64_t in = 0, out = 0;
  bool residual = false;
  std::int64_t rows = 0;

  std::string name() const { return fmt::format("{} {} n{}", form.name, product, rows); }
  std::int64_t code_bytes() const { return out * in * form.form.bits / 8; }
  std::int64_t groups() const { return form.form.groups(in); }
  std::int64_t scale_bytes() const { return out * form.form.scales.value_bytes(groups()); }
  std::int64_t weight_bytes() const {
    return code_bytes() + scale_bytes() + (form.form.has_zeros ? out * groups() : 0);
  }
  // Codes, scales, zeros, x and y, each moved once; y twice when residual.
  double bytes() const {
    return static_cast<double>(weight_bytes() + rows * in * 2 + rows * out * (residual ? 8 : 2));
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Form& form : forms()) {
    const Case products[] = {
        {form, "7b qkv", 4096, 12288},     {form, "7b o", 4096, 4096, true},
        {form, "7b gate_up", 4096, 22016}, {form, "7b down", 11008, 4096, true},
        {form, "8b gate_up", 4096, 28672}, {form, "8b down", 14336, 4096, true},
        {form, "70b gate_up", 8192, 57344}};
    for (const Case& product : products) {
      for (const std::int64_t rows : {1, 8, 16, 32, 64, 512}) {
        all.push_back(product);
        all.back().rows = rows;
      }
    }
  }
  return all;
}

class PackedBench {
 public:
  static Result<PackedBench> create(GpuBench& gpu) {
    PackedBench bench(gpu);
    TANDEM_ASSIGN(bench.gemm_, cuda::Gemm::create());
    TANDEM_ASSIGN(bench.weights_, GpuMemory::create(kWeightBytes));
    TANDEM_ASSIGN(bench.x_, GpuMemory::create(kRowBytes));
    TANDEM_ASSIGN(bench.y_, GpuMemory::create(kRowBytes));
    TANDEM_TRY(fill_random_bf16(bench.x_.data(), kRowBytes / 2, 42, 1, gpu.stream()));
    TANDEM_TRY(gpu.synchronize("filling memory"));
    return bench;
  }

  Result<GpuTimes> run(const Case& c, int replays) {
    // As codes, any bits will do; as scales, in either dtype, these are small numbers.
    TANDEM_TRY(fill_random_bf16(weights_.data(), kWeightBytes / 2, 41, 0.02F, gpu_->stream()));
    const int copies = std::clamp(static_cast<int>(kWeightBytes / padded_bytes(c)), 1, kMaxWeights);
    if (c.form.form.has_zeros) {  // zeros of 4 bits
      for (int copy = 0; copy < copies; ++copy) {
        TANDEM_TRY(cuda_status(
            cudaMemsetAsync(weight_of(c, copy).packed.zeros, 7,
                            static_cast<std::size_t>(c.out * c.groups()), gpu_->stream()),
            "filling zeros"));
      }
    }
    if (c.rows < kManyRows) TANDEM_TRY(check(c));
    // Nothing is loaded or chosen while a recording is made.
    TANDEM_TRY(gemm_->run(args_of(c, 0), gpu_->stream()));
    TANDEM_TRY(gpu_->synchronize("a product by a packed weight"));
    return gpu_->time(copies, replays,
                      [&](int i) { return gemm_->run(args_of(c, i), gpu_->stream()); });
  }

 private:
  explicit PackedBench(GpuBench& gpu) : gpu_(&gpu) {}

  static std::size_t padded_bytes(const Case& c) {
    return static_cast<std::size_t>(c.weight_bytes() + 1023) / 1024 * 1024;
  }
  Weight weight_of(const Case& c, int copy) const {
    std::byte* const at = weights_.data() + static_cast<std::size_t>(copy) * padded_bytes(c);
    Weight w;
    w.form = c.form.form;
    w.packed_rows = c.out;
    w.packed_cols = c.in;
    w.packed.low = reinterpret_cast<std::uint8_t*>(at);
    w.packed.scales = at + c.code_bytes();
    if (w.form.has_zeros) {
      w.packed.zeros = reinterpret_cast<std::uint8_t*>(w.packed.scales + c.scale_bytes());
    }
    w.arranged = cuda::can_arrange(w);
    return w;
  }
  GemmArgs args_of(const Case& c, int copy) const {
    GemmArgs args;
    args.x = TensorView(x_.data(), DType::bf16, {c.rows, c.in});
    args.w = weight_of(c, copy);
    args.y = TensorView(y_.data(), c.residual ? DType::f32 : DType::bf16, {c.rows, c.out});
    args.accumulate = c.residual;
    return args;
  }

  // The results in f32 of the first c.rows rows of a product of `rows`.
  Result<std::vector<float>> results(const Case& c, std::int64_t rows) {
    GemmArgs args = args_of(c, 0);
    args.x = TensorView(x_.data(), DType::bf16, {rows, c.in});
    args.y = TensorView(y_.data(), DType::f32, {rows, c.out});
    args.accumulate = false;
    // Filled with large values instead of zeros, so that an element that is not written is noticed.
    TANDEM_TRY(fill_random_bf16(y_.data(), kRowBytes / 2, 43, 1e6F, gpu_->stream()));
    TANDEM_TRY(gemm_->run(args, gpu_->stream()));
    TANDEM_TRY(gpu_->synchronize("checking a product"));
    std::vector<float> values(static_cast<std::size_t>(c.rows * c.out));
    TANDEM_TRY(cuda_status(
        cudaMemcpy(values.data(), y_.data(), values.size() * sizeof(float), cudaMemcpyDeviceToHost),
        "copying"));
    return values;
  }
  // Compares with the product by dequantised weights.
  Status check(const Case& c) {
    TANDEM_ASSIGN(const std::vector<float> got, results(c, c.rows));
    TANDEM_ASSIGN(const std::vector<float> want, results(c, kManyRows));
    float largest = 0;
    float apart = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      const float difference = std::abs(got[i] - want[i]);
      apart = std::isfinite(difference) ? std::max(apart, difference) : HUGE_VALF;
    }
    if (apart <= kPackedTolerance * largest) return {};
    return error(StatusCode::internal, "it differs from dequantised weights by {} of {}", apart,
                 largest);
  }

  GpuBench* gpu_;
  std::unique_ptr<cuda::Gemm> gemm_;
  GpuMemory weights_, x_, y_;
};

}  // namespace

Status run_packed_section(GpuBench& gpu, const PackedSection& section, BenchReport& report) {
  std::vector<Case> all = cases();
  std::erase_if(all,
                [&](const Case& c) { return c.name().find(section.only) == std::string::npos; });
  if (all.empty()) return {};
  TANDEM_ASSIGN(const double bandwidth, gpu.copy_bandwidth());
  TANDEM_ASSIGN(PackedBench bench, PackedBench::create(gpu));
  fmt::print(
      "\nProducts by packed weights, x in bf16, cold weights, back to back in a graph\n"
      "  {:<34}{:>9}{:>9}{:>9}{:>8}{:>7}\n",
      "case", "us", "p99", "floor", "TB/s", "copy");
  for (const Case& c : all) {
    const Result<GpuTimes> times = bench.run(c, static_cast<int>(section.replays));
    if (!times) return times.status().with_context(c.name());
    const double us = times->median();
    fmt::print("  {:<34}{:>9.2f}{:>9.2f}{:>9.2f}{:>8.2f}{:>6.0f}%\n", c.name(), us,
               times->percentile(0.99), c.bytes() / bandwidth * 1e6, c.bytes() / us * 1e-6,
               c.bytes() / (us * 1e-6) / bandwidth * 100);
    report.add(Samples{c.name(), "us", times->us});
  }
  fmt::print("\n");
  return {};
}

}  // namespace tandem::kernels
