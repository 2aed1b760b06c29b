// S-LoRA beside its own variants, by number of adapters and by rate.
#include <fmt/format.h>

#include <array>
#include <set>
#include <tuple>

#include "tools/bench/papers/paper_machines.h"
#include "tools/bench/papers/s_lora.h"

namespace tandem::papers {
namespace {

constexpr std::string_view kOurs = "S-LoRA";
constexpr std::string_view kSplit = "no-unify-mem";
constexpr std::string_view kBmm = "bmm";
constexpr std::array kVariants = {kOurs, kSplit, kBmm};

// Tokens of KV that fit beside the adapters of a batch if both take what they need from one pool:
// counted over batches that are filled in the order of arrival. The first thousand requests.
Result<std::int64_t> shared_kv_tokens(const SimulationOptions& options, const PaperModel& model) {
  TANDEM_ASSIGN(Workload workload, Workload::create(options.workload, nullptr));
  const SimMachine& machine = options.machine;
  const std::int64_t pool = machine.kv_tokens * token_bytes(model) + machine.adapter_bytes;
  std::int64_t batches = 0;
  std::int64_t all_kv = 0;
  std::int64_t kv = 0;
  std::int64_t bytes = 0;
  std::set<std::int32_t> adapters;
  for (int i = 0; i < 1000; ++i) {
    const auto request = workload.next();
    if (!request) break;
    const std::int64_t tokens = std::int64_t{request->prompt_tokens} + request->answer_tokens;
    const bool here = adapters.contains(request->adapter.value());
    const std::int64_t more = here ? 0 : machine.bytes_per_rank * request->rank;
    if (bytes + more + (kv + tokens) * token_bytes(model) > pool) {
      ++batches;
      all_kv += (pool - bytes) / token_bytes(model);
      kv = bytes = 0;
      adapters.clear();
    }
    bytes += adapters.insert(request->adapter.value()).second
                 ? machine.bytes_per_rank * request->rank
                 : 0;
    kv += tokens;
  }
  return batches == 0 ? machine.kv_tokens : all_kv / batches;
}

// `bmm` pads ranks, copies the adapters of each row, and multiplies what it has copied: it reads
// them twice and writes them once. It lacks the shared pool, too.
Result<SimulationOptions> variant(SimulationOptions options, std::string_view name) {
  if (name == kOurs) {
    TANDEM_ASSIGN(options.machine.kv_tokens, shared_kv_tokens(options, kLlama7b));
  } else if (name == kBmm) {
    options.machine.costs.kernel = LoraKernel::bgmv;
    options.machine.costs.rank_s *= 3;
    options.machine.costs.prefill_rank_token_s *= 3;
  }
  return options;
}

std::string rates_text(const Findings& found, double x) {
  return fmt::format("{:.2f} / {:.2f} / {:.2f}", found.at(kOurs, x), found.at(kSplit, x),
                     found.at(kBmm, x));
}

}  // namespace

Result<Findings> s_lora_adapters(const PapersBench& bench) {
  Findings found;
  const std::vector<double> counts =
      bench.quick ? std::vector<double>{5, 2000} : std::vector<double>{5, 100, 200, 1000, 2000};
  const SimMachine machine = paper_machine(LoraKernel::mbgmv, kLlama7b, kA10g);
  for (const std::string_view name : kVariants) {
    for (const double adapters : counts) {
      SimulationOptions options = s_lora_engine(bench, machine, 3);  // more than it can serve
      options.workload.adapters = static_cast<std::int64_t>(adapters);
      TANDEM_ASSIGN(options, variant(options, name));
      TANDEM_ASSIGN(const PolicyResult result, simulate(bench, options));
      found.add(name, adapters, served_per_s(result, options));
    }
  }
  const double many = counts.back();
  const double kept = found.at(kOurs, many) / found.at(kOurs, counts.front());
  found.here = fmt::format(
      "2,000 adapters keep {:.1f} % of the throughput of 5; S-LoRA / no-unify-mem / bmm at 2,000: "
      "{} requests/s",
      kept * 100, rates_text(found, many));
  found.judge(kept >= 0.85 && found.at(kOurs, many) >= found.at(kSplit, many) &&
                  found.at(kSplit, many) > found.at(kBmm, many),
              "throughput falls with adapters, or a variant is not behind");
  return found;
}

Result<Findings> s_lora_rates(const PapersBench& bench) {
  Findings found;
  const std::vector<double> rates = bench.quick
                                        ? std::vector<double>{1, 2}
                                        : std::vector<double>{0.5, 1, 1.25, 1.5, 1.75, 2, 2.5};
  const SimMachine machine = paper_machine(LoraKernel::mbgmv, kLlama7b, kA10g);
  for (const std::string_view name : kVariants) {
    for (const double rate : rates) {
      SimulationOptions options = s_lora_engine(bench, machine, rate);
      TANDEM_ASSIGN(options, variant(options, name));
      TANDEM_ASSIGN(const PolicyResult result, simulate(bench, options));
      found.add(name, rate, result.ttft_attainment * 100);
    }
  }
  bool ahead = true;
  double ours = 0;
  double split = 0;
  double bmm = 0;
  for (const double rate : rates) {
    ahead = ahead && found.at(kOurs, rate) >= found.at(kSplit, rate) - 1 &&
            found.at(kSplit, rate) >= found.at(kBmm, rate) - 1;
    ours += found.at(kOurs, rate) / static_cast<double>(rates.size());
    split += found.at(kSplit, rate) / static_cast<double>(rates.size());
    bmm += found.at(kBmm, rate) / static_cast<double>(rates.size());
  }
  found.here = fmt::format(
      "first tokens within 6 s, mean over the rates: {:.0f} / {:.0f} / {:.0f} % (S-LoRA / "
      "no-unify-mem / bmm)",
      ours, split, bmm);
  found.judge(ahead && ours > bmm, "a variant is ahead at one of the rates");
  return found;
}

Result<Findings> s_lora_real_trace(const PapersBench& bench) {
  Findings found;
  const std::vector<double> rates =
      bench.quick ? std::vector<double>{2, 5} : std::vector<double>{1, 2, 3, 4, 5};
  const SimMachine machine = paper_machine(LoraKernel::mbgmv, kLlama7b, kA10g);
  for (const std::string_view name : kVariants) {
    for (const double rate : rates) {
      SimulationOptions options = s_lora_engine(bench, machine, rate);
      options.workload.adapters = 26;
      options.workload.lengths = "arena";
      use_azure(bench, options.workload);
      TANDEM_ASSIGN(options, variant(options, name));
      TANDEM_ASSIGN(const PolicyResult result, simulate(bench, options));
      found.add(name, rate, served_per_s(result, options));
    }
  }
  const double most = rates.back();
  found.here = fmt::format("at {} requests/s offered: {} served (S-LoRA / no-unify-mem / bmm)",
                           most, rates_text(found, most));
  found.judge(found.at(kOurs, most) >= found.at(kSplit, most) &&
                  found.at(kSplit, most) > found.at(kBmm, most),
              "a variant is not behind");
  return found;
}

// Bytes that ranks exchange in a layer for one row, by S-LoRA's partition: gathers of x A of q, k
// and v and a sum for o, each of a rank's width, beside the base's two sums of the hidden width.
Result<Findings> s_lora_shards(const PapersBench&) {
  Findings found;
  for (const auto& [name, hidden, rank] :
       {std::tuple<std::string_view, double, double>{"30B, rank 32", 7168, 32},
        {"70B, rank 64", 8192, 64}}) {
    for (const double cards : {2.0, 4.0}) {
      const double base = 2 * 2 * (cards - 1) / cards * hidden;  // a sum sends each byte twice
      const double lora = 3 * (cards - 1) / cards * rank + 2 * (cards - 1) / cards * rank;
      found.add(name, cards, lora / base * 100);
    }
  }
  found.here = fmt::format(
      "LoRA adds {:.2f} % (30B) and {:.2f} % (70B) to the bytes that the base exchanges",
      found.at("30B, rank 32", 2), found.at("70B, rank 64", 2));
  found.judge(found.at("70B, rank 64", 4) < 5, "LoRA exchanges as much as the base");
  return found;
}

}  // namespace tandem::papers
