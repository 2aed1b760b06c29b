#include "tools/bench/kernels/attention_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/attention/kernels.h"
#include "gpu/cuda/base/cuda_status.h"

namespace tandem::kernels {
namespace {

using cuda::cuda_status;

constexpr std::int32_t kHeads = 32;
constexpr std::int32_t kHeadDim = 128;
constexpr std::int32_t kPageTokens = 16;
constexpr std::size_t kCacheBytes = std::size_t{1440} << 20;  // many times the L2 cache
constexpr int kMaxCopies = 24;
// For bf16 results of two kernels that sum in different orders.
constexpr double kTolerance = 0x1p-6;

// Sequences that all have `kv_len` keys and compute the last `rows` of them.
struct AttentionCase {
  std::int32_t kv_heads = 0;
  std::int32_t sequences = 0;
  std::int32_t rows = 0;
  std::int32_t kv_len = 0;

  bool prompt() const { return rows > 1; }
  std::string name() const {
    return prompt() ? fmt::format("attention kv{} prompt {} of {} n{}", kv_heads, rows, kv_len,
                                  sequences)
                    : fmt::format("attention kv{} context {} n{}", kv_heads, kv_len, sequences);
  }
  std::int64_t pages() const { return std::int64_t{sequences} * (kv_len / kPageTokens); }
  std::int64_t page_elements() const { return std::int64_t{2} * kv_heads * kPageTokens * kHeadDim; }
  std::int64_t q_elements() const { return std::int64_t{sequences} * rows * kHeads * kHeadDim; }
  double cache_bytes() const { return 2.0 * static_cast<double>(pages() * page_elements()); }
  double bytes() const { return cache_bytes() + 4.0 * static_cast<double>(q_elements()); }
  double flops() const {  // counts only keys that a row attends to
    const double keys = (2.0 * kv_len - rows + 1) / 2;
    return 4.0 * static_cast<double>(q_elements()) * keys;
  }
};

std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> cases;
  for (const std::int32_t kv_heads : {32, 8}) {
    for (const std::int32_t sequences : {1, 2, 4, 8, 16, 32}) {
      cases.push_back({kv_heads, sequences, 1, 512});
    }
    cases.push_back({kv_heads, 1, 1, 32768});
    for (const std::int32_t tokens : {64, 128, 256, 512, 2048}) {
      cases.push_back({kv_heads, 1, tokens, tokens});
    }
    cases.push_back({kv_heads, 4, 512, 512});
    cases.push_back({kv_heads, 32, 64, 64});
    cases.push_back({kv_heads, 1, 256, 8192});
  }
  return cases;
}

class AttentionBench {
 public:
  static Result<AttentionBench> create(GpuBench& gpu) {
    AttentionBench bench(gpu);
    TANDEM_ASSIGN(bench.attention_, cuda::Attention::create());
    constexpr std::size_t kRows = std::size_t{2048} * kHeads * kHeadDim * 2;
    TANDEM_ASSIGN(bench.cache_, GpuMemory::create(kCacheBytes));
    TANDEM_ASSIGN(bench.q_, GpuMemory::create(kRows));
    TANDEM_ASSIGN(bench.out_, GpuMemory::create(kRows));
    TANDEM_ASSIGN(bench.tables_, GpuMemory::create(std::size_t{1} << 20));
    TANDEM_TRY(fill_random_bf16(bench.cache_.data(), kCacheBytes / 2, 31, 1, gpu.stream()));
    TANDEM_TRY(fill_random_bf16(bench.q_.data(), kRows / 2, 32, 1, gpu.stream()));
    TANDEM_TRY(gpu.synchronize("filling memory"));
    return bench;
  }

  Result<GpuTimes> run(const AttentionCase& c, int replays) {
    std::vector<AttentionSequence> sequences;
    sequences.reserve(static_cast<std::size_t>(c.sequences));
    for (std::int32_t i = 0; i < c.sequences; ++i) {
      sequences.push_back({i * c.rows, c.rows, c.kv_len, i * (c.kv_len / kPageTokens)});
    }
    std::vector<std::int32_t> pages(static_cast<std::size_t>(c.pages()));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), std::mt19937(33));
    const std::size_t head = sequences.size() * sizeof(AttentionSequence);
    TANDEM_TRY(cuda_status(
        cudaMemcpy(tables_.data(), sequences.data(), head, cudaMemcpyHostToDevice), "copying"));
    TANDEM_TRY(cuda_status(
        cudaMemcpy(tables_.data() + head, pages.data(), pages.size() * 4, cudaMemcpyHostToDevice),
        "copying"));
    const AttentionPlan plan{kHeads,      c.kv_heads,           kHeadDim,
                             kPageTokens, DType::bf16,          sequences.data(),
                             c.sequences, c.sequences * c.rows, !c.prompt()};
    TANDEM_TRY(attention_->plan(plan, gpu_->stream()));
    TANDEM_TRY(check(c));
    const int copies = std::clamp(static_cast<int>(kCacheBytes / c.cache_bytes()), 1, kMaxCopies);
    return gpu_->time(copies, replays,
                      [&](int i) { return attention_->run(args_of(c, i), gpu_->stream()); });
  }

 private:
  explicit AttentionBench(GpuBench& gpu) : gpu_(&gpu) {}

  AttentionArgs args_of(const AttentionCase& c, int copy) const {
    const std::int64_t rows = std::int64_t{c.sequences} * c.rows;
    AttentionArgs args{};
    args.q = TensorView(q_.data(), DType::bf16, {rows, kHeads, kHeadDim});
    args.out = TensorView(out_.data(), DType::bf16, {rows, kHeads, kHeadDim});
    args.cache = {
        cache_.data() + static_cast<std::size_t>(copy) * static_cast<std::size_t>(c.cache_bytes()),
        c.page_elements(), kPageTokens};
    args.kv_heads = c.kv_heads;
    args.sequences = reinterpret_cast<const AttentionSequence*>(tables_.data());
    args.page_ids = reinterpret_cast<const std::int32_t*>(
        tables_.data() + static_cast<std::size_t>(c.sequences) * sizeof(AttentionSequence));
    args.num_sequences = c.sequences;
    args.max_rows = c.rows;
    args.max_kv_len = c.kv_len;
    args.scale = 1 / std::sqrt(static_cast<float>(kHeadDim));
    return args;
  }

  Result<std::vector<float>> result(const AttentionCase& c, bool simple) {
    const auto count = static_cast<std::size_t>(c.q_elements());
    // Filled with large values instead of zeros, so that an element that is not written is noticed.
    TANDEM_TRY(fill_random_bf16(out_.data(), count, 34, 1e6F, gpu_->stream()));
    const AttentionArgs args = args_of(c, 0);
    TANDEM_TRY(simple ? cuda::launch_simple_attention(args, gpu_->stream())
                      : attention_->run(args, gpu_->stream()));
    TANDEM_TRY(gpu_->synchronize("checking attention"));
    std::vector<std::uint16_t> raw(count);
    TANDEM_TRY(cuda_status(cudaMemcpy(raw.data(), out_.data(), count * 2, cudaMemcpyDeviceToHost),
                           "copying"));
    std::vector<float> values(count);
    convert(DType::bf16, raw.data(), DType::f32, values.data(), count);
    return values;
  }

  Status check(const AttentionCase& c) {
    TANDEM_ASSIGN(const std::vector<float> got, result(c, false));
    TANDEM_ASSIGN(const std::vector<float> want, result(c, true));
    float largest = 0;
    float apart = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      const float difference = std::abs(got[i] - want[i]);
      apart = std::isfinite(difference) ? std::max(apart, difference) : HUGE_VALF;
    }
    if (apart <= kTolerance * largest) return {};
    return error(StatusCode::internal, "it differs from the simple kernel by {} of {}", apart,
                 largest);
  }

  GpuBench* gpu_;
  std::unique_ptr<cuda::Attention> attention_;
  GpuMemory cache_, q_, out_, tables_;
};

}  // namespace

Status run_attention_section(GpuBench& gpu, const AttentionSection& section, BenchReport& report) {
  std::vector<AttentionCase> cases = attention_cases();
  std::erase_if(cases, [&](const AttentionCase& c) {
    return c.name().find(section.only) == std::string::npos;
  });
  if (cases.empty()) return {};
  TANDEM_ASSIGN(const double bandwidth, gpu.copy_bandwidth());
  TANDEM_ASSIGN(AttentionBench bench, AttentionBench::create(gpu));
  fmt::print(
      "\nAttention, {} heads of {}, bf16, pages of {}, cold caches, back to back in a graph\n"
      "  {:<34}{:>9}{:>9}{:>8}{:>7}{:>10}\n",
      kHeads, kHeadDim, kPageTokens, "case", "us", "p99", "TB/s", "copy", "TFLOP/s");
  for (const AttentionCase& c : cases) {
    const Result<GpuTimes> times = bench.run(c, static_cast<int>(section.replays));
    if (!times) return times.status().with_context(c.name());
    const double us = times->median();
    fmt::print("  {:<34}{:>9.2f}{:>9.2f}{:>8.2f}{:>6.0f}%{:>10.1f}\n", c.name(), us,
               times->percentile(0.99), c.bytes() / us * 1e-6,
               c.bytes() / (us * 1e-6) / bandwidth * 100, c.flops() / us * 1e-6);
    report.add(Samples{c.name(), "us", times->us});
  }
  fmt::print("\n");
  return {};
}

}  // namespace tandem::kernels
