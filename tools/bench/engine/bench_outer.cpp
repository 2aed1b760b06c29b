#include "tools/bench/engine/bench_outer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/log/log.h"
#include "gpu/cuda/copy_speed.h"
#include "tools/bench/measure/bench_adapters.h"
#include "tools/bench/measure/bench_executor.h"
#include "tools/cli/progress.h"
#include "tools/setup/engine_setup.h"
#include "tools/setup/gpus.h"

namespace tandem {
namespace {

constexpr std::int32_t kOuterBatch = 32;
constexpr std::int32_t kOuterContext = 512;
constexpr std::int32_t kOuterRank = 64;
constexpr int kOuterWarmUp = 3;
constexpr double kMostOverBytes = 0.05;  // A1, beyond what the bytes allow
constexpr double kLeastOfCopy = 0.70;    // A2
enum Set { kNone = ExecutorBench::kNoAdapters, kInside, kOutside, kHeads };

std::vector<AdapterSet> adapter_sets() {
  std::vector<std::string_view> outside = all_modules();
  outside.insert(outside.end(), {"embed_tokens", "lm_head"});
  return {{"rank 64 all7", kOuterRank, all_modules(), kOuterBatch},
          {"rank 64 all7, embedding and head", kOuterRank, outside, kOuterBatch},
          {"whole heads", 1, {}, kOuterBatch, {Site::whole_head}}};
}

}  // namespace

Status measure_outer_modules(const EngineSettings& settings, const ModelSpec& spec, DType dtype,
                             int rounds, BenchReport& report) {
  TANDEM_ASSIGN(const double before, measure_cuda_copy_speed(first_gpu(settings)));
  TANDEM_ASSIGN(const auto device, make_device(settings));
  ExecutorBenchOptions options;
  options.batch = kOuterBatch;
  options.context = kOuterContext;
  options.prefill_tokens = 1;
  options.straight = true;
  options.sets = adapter_sets();
  const SteadyClock clock;
  Progress progress("making weights and adapters", STDERR_FILENO,
                    Progress::is_terminal(STDERR_FILENO), clock);
  Device* const devices[] = {device.get()};
  TANDEM_ASSIGN(const auto bench, ExecutorBench::create(devices, spec, dtype, options,
                                                        [&](std::size_t done, std::size_t total) {
                                                          progress.update(done, total);
                                                        }));
  progress.finish();
  TANDEM_ASSIGN(const double after, measure_cuda_copy_speed(first_gpu(settings)));
  const double copy = std::max(before, after);
  log::info("decode with adapters at embedding and head, by turns");
  constexpr std::array<Set, 4> kSets = {kNone, kInside, kOutside, kHeads};
  std::array<Samples, kSets.size()> samples;
  for (std::size_t i = 0; i < kSets.size(); ++i) {
    const std::string what =
        kSets[i] == kNone ? "no adapters" : options.sets[static_cast<std::size_t>(kSets[i])].name;
    samples[i] = {fmt::format("decode step, batch {}, {}", kOuterBatch, what), "ms", {}};
  }
  for (int round = -kOuterWarmUp; round < rounds; ++round) {
    for (std::size_t i = 0; i < kSets.size(); ++i) {
      TANDEM_ASSIGN(const double seconds, bench->decode(kOuterBatch, kSets[i]));
      if (round >= 0) samples[i].values.push_back(seconds * 1e3);
    }
  }
  for (const Samples& each : samples) report.add(each);
  const auto& [none, inside, outside, heads] = samples;

  // A step reads one column of an embedding's A for each row.
  const double unread = static_cast<double>(kOuterBatch) * kOuterRank *
                        static_cast<double>(spec.vocab_size * size_of(dtype));
  const double bytes = (bench->decode_bytes(kOuterBatch, kOutside) - unread) /
                       bench->decode_bytes(kOuterBatch, kInside);
  report.add({"A1",
              fmt::format("32 distinct rank-64 adapters with embedding and head, over without; by "
                          "bytes {:.3f}",
                          bytes),
              outside.median() / inside.median(), "", Must::be_at_most, bytes + kMostOverBytes});
  const double head_bytes = static_cast<double>(kOuterBatch) *
                            static_cast<double>(spec.vocab_size * spec.hidden_size) *
                            static_cast<double>(size_of(dtype));
  report.add({"A2", "32 whole heads at batch 32: bytes/s over copy speed",
              head_bytes / ((heads.median() - none.median()) * 1e-3) / copy, "", Must::be_at_least,
              kLeastOfCopy});
  return {};
}

}  // namespace tandem
