#include "tools/bench/engine/bench_constrained.h"

#include "base/log/log.h"

namespace tandem {
namespace {

constexpr std::int32_t kConstrainedBatch = 32;
constexpr std::int32_t kConstrainedPrompt = 128;
// Records as in information extraction, with more items than an answer can hold, so that no
// sequence ends early.
constexpr const char* kRecords =
    R"({"type":"array","minItems":100000,"items":{"type":"object","properties":{)"
    R"("name":{"type":"string"},"kind":{"enum":["person","place","thing"]},)"
    R"("count":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}},)"
    R"("required":["name","kind","count","tags"]}})";

}  // namespace

Status measure_constrained(ServingBench& bench, int rounds, std::int32_t output_tokens,
                           BenchReport& report) {
  log::info("{} constrained sequences and as many free ones", kConstrainedBatch);
  const TextConstraint records{TextConstraint::Kind::json_schema, kRecords};
  Samples free{"engine step, 32 free sequences", "ms", {}};
  Samples constrained{"engine step, 32 that follow a JSON schema", "ms", {}};
  for (int round = -1; round < rounds; ++round) {  // the first round compiles the schema
    for (Samples* samples : {&free, &constrained}) {
      GenerationRequest like;
      like.sampling.temperature = 1;
      if (samples == &constrained) like.constraint = records;
      TANDEM_ASSIGN(
          const StepShares shares,
          bench.steady_decode(kConstrainedBatch, kConstrainedPrompt, output_tokens, like));
      if (round >= 0) samples->values.push_back(shares.step * (1 + shares.gap) * 1e3);
    }
  }
  report.add(free);
  report.add(constrained);
  report.add({"S1", "decode step of 32 sequences that follow a JSON schema, over 32 free ones",
              constrained.median() / free.median(), "", Must::be_at_most, 1.05});
  return {};
}

}  // namespace tandem
