#include "tools/bench/kernels/lora_bench.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/lora/lora.h"
#include "tools/bench/kernels/lora_reference.h"

namespace tandem::kernels {
namespace {

using cuda::cuda_status;

constexpr std::size_t kWeightBytes = std::size_t{2560} << 20;
constexpr std::size_t kRowBytes = std::size_t{1} << 30;
constexpr std::size_t kBeforeBytes = std::size_t{256} << 20;
constexpr std::size_t kMetaBytes = std::size_t{8} << 20;
// A bf16 result may round to either neighbour; a different order of summation changes less.
constexpr float kAbsolute = 2e-4F;
constexpr float kRelative = 0x1p-7F;
constexpr float kWeightScale = 0.03F;
constexpr float kOutScale = 0.05F;  // small, or its rounding would hide errors of the delta

constexpr std::size_t align(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

}  // namespace

LoraStep step_of(const LoraCase& c) {
  LoraStep step;
  step.in = c.in;
  step.out = c.out;
  step.counts = share_rows(c);
  step.ranks.assign(step.counts.size(), c.rank);
  step.expected_us = c.best_us;
  step.rows_in_order = c.kind == "prefill";
  return step;
}

Status launch_planned(const LoraArgs& args, cudaStream_t stream) {
  return cuda::launch_lora(args, stream, cuda::LoraKernel::automatic, false);
}

Result<LoraBench> LoraBench::create(GpuBench& gpu) {
  LoraBench bench(gpu);
  TANDEM_ASSIGN(bench.weights_, GpuMemory::create(kWeightBytes));
  TANDEM_ASSIGN(bench.x_, GpuMemory::create(kRowBytes));
  TANDEM_ASSIGN(bench.y_, GpuMemory::create(kRowBytes));
  TANDEM_ASSIGN(bench.before_, GpuMemory::create(kBeforeBytes));
  TANDEM_ASSIGN(bench.v_, GpuMemory::create(kBeforeBytes));
  TANDEM_ASSIGN(bench.meta_, GpuMemory::create(kMetaBytes));
  TANDEM_TRY(
      fill_random_bf16(bench.weights_.data(), kWeightBytes / 2, 11, kWeightScale, gpu.stream()));
  TANDEM_TRY(fill_random_bf16(bench.x_.data(), kRowBytes / 2, 12, 1, gpu.stream()));
  TANDEM_TRY(gpu.synchronize("filling memory"));
  return bench;
}

Status LoraBench::check(const LoraArgs& args, const Launch& launch) {
  cudaStream_t stream = gpu_->stream();
  const auto bytes = static_cast<std::size_t>(args.out[0].num_elements()) * 2;
  if (bytes > kBeforeBytes) return invalid("a case of {} bytes of results", bytes);
  TANDEM_TRY(cuda_status(
      cudaMemcpyAsync(before_.data(), args.out[0].data, bytes, cudaMemcpyDeviceToDevice, stream),
      "copying"));
  TANDEM_TRY(launch(args, stream));
  auto* worst = reinterpret_cast<float*>(meta_.data());
  TANDEM_TRY(judge_lora(args, before_.data(), reinterpret_cast<float*>(v_.data()), kAbsolute,
                        kRelative, worst, stream));
  float error_share = 0;
  TANDEM_TRY(cuda_status(
      cudaMemcpyAsync(&error_share, worst, sizeof(float), cudaMemcpyDeviceToHost, stream),
      "copying"));
  TANDEM_TRY(gpu_->synchronize("checking a LoRA operation"));
  last_error_ = error_share;
  if (error_share > 1) {
    return error(StatusCode::internal, "the result is wrong: {:.1f} times what is tolerated",
                 error_share);
  }
  return {};
}

Result<GpuTimes> LoraBench::run(const LoraStep& step, const Launch& launch, int replays) {
  const std::size_t segments = step.counts.size();
  const auto tokens = std::accumulate(step.counts.begin(), step.counts.end(), std::int64_t{0});
  const auto x_bytes = align(static_cast<std::size_t>(tokens * step.in) * 2);
  const auto y_bytes = align(static_cast<std::size_t>(tokens * step.out) * 2);
  std::size_t set_bytes = 0;
  for (const std::int32_t rank : step.ranks) {
    set_bytes += 2 * align(static_cast<std::size_t>(rank) * 2 *
                           static_cast<std::size_t>(std::max(step.in, step.out)));
  }
  if (set_bytes > kWeightBytes || x_bytes > kRowBytes || y_bytes > kRowBytes) {
    return invalid("a case that does not fit the benchmark's memory");
  }
  // The number of operations makes one replay last 250 us. Each operation has its own operands if
  // the memory allows; else operands are reused after more bytes than the L2 cache holds.
  const int count = static_cast<int>(std::clamp(250.0 / step.expected_us, 4.0, 40.0));
  const auto sets = static_cast<std::size_t>(count);
  std::vector<LoraMatrix> table(segments * sets);
  for (std::size_t set = 0; set < sets; ++set) {
    std::size_t at = set % (kWeightBytes / set_bytes) * set_bytes;
    for (std::size_t s = 0; s < segments; ++s) {
      const auto rank = static_cast<std::size_t>(step.ranks[s]);
      const auto base = reinterpret_cast<std::uint64_t>(weights_.data());
      const std::size_t a_bytes = align(rank * static_cast<std::size_t>(step.in) * 2);
      table[s * sets + set] = {base + at, base + at + a_bytes, step.ranks[s], step.ranks[s]};
      at += a_bytes + align(rank * static_cast<std::size_t>(step.out) * 2);
    }
  }
  std::vector<LoraSegment> segment_list;
  std::int32_t first = 0;
  for (std::size_t s = 0; s < segments; ++s) {
    segment_list.push_back({static_cast<std::int32_t>(s), first, step.counts[s]});
    first += step.counts[s];
  }
  std::vector<std::int32_t> rows(static_cast<std::size_t>(tokens));
  std::iota(rows.begin(), rows.end(), 0);
  std::mt19937_64 random(7);
  if (!step.rows_in_order) std::shuffle(rows.begin(), rows.end(), random);

  std::byte* meta = meta_.data() + 256;
  const auto upload = [&](const void* data, std::size_t bytes) -> Result<std::byte*> {
    if (meta + align(bytes) > meta_.data() + kMetaBytes) return invalid("too many segments");
    TANDEM_TRY(cuda_status(
        cudaMemcpyAsync(meta, data, bytes, cudaMemcpyHostToDevice, gpu_->stream()), "copying"));
    std::byte* here = meta;
    meta += align(bytes);
    return here;
  };
  TANDEM_ASSIGN(std::byte * table_at, upload(table.data(), table.size() * sizeof(LoraMatrix)));
  TANDEM_ASSIGN(std::byte * rows_at, upload(rows.data(), rows.size() * sizeof(std::int32_t)));
  TANDEM_ASSIGN(std::byte * segments_at,
                upload(segment_list.data(), segment_list.size() * sizeof(LoraSegment)));
  const std::size_t y_sets = std::min(sets, kRowBytes / y_bytes);
  TANDEM_TRY(fill_random_bf16(y_.data(), y_sets * y_bytes / 2, 13, kOutScale, gpu_->stream()));

  LoraArgs args;
  args.slot_stride = static_cast<std::int64_t>(sets);
  args.num_modules = 1;
  args.rows = reinterpret_cast<const std::int32_t*>(rows_at);
  args.num_rows = static_cast<std::int32_t>(tokens);
  args.segments = reinterpret_cast<const LoraSegment*>(segments_at);
  args.num_segments = static_cast<std::int32_t>(segments);
  args.max_rank = *std::max_element(step.ranks.begin(), step.ranks.end());
  args.max_count = *std::max_element(step.counts.begin(), step.counts.end());
  const auto of_set = [&](std::size_t set) {
    LoraArgs own = args;
    own.x = TensorView(x_.data() + set % (kRowBytes / x_bytes) * x_bytes, DType::bf16,
                       {tokens, step.in});
    own.out[0] = TensorView(y_.data() + set % y_sets * y_bytes, DType::bf16, {tokens, step.out});
    own.table = reinterpret_cast<const LoraMatrix*>(table_at) + set;
    return own;
  };
  TANDEM_TRY(check(of_set(0), launch));
  return gpu_->time(count, replays, [&](int i) {
    return launch(of_set(static_cast<std::size_t>(i)), gpu_->stream());
  });
}

}  // namespace tandem::kernels
