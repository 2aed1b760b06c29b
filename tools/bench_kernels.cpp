// tandem bench kernels: single CUDA kernels against what others and the memory reach.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "engine/base/clock.h"
#include "tools/bench_commands.h"
#include "tools/bench_report.h"
#include "tools/flags.h"
#include "tools/progress.h"
#if TANDEM_HAVE_CUDA
#include "tools/kernels/attention_section.h"
#include "tools/kernels/gemm_section.h"
#include "tools/kernels/gpu_bench.h"
#include "tools/kernels/lora_section.h"
#endif

namespace tandem {
namespace {

const CommandInfo kInfo{
    "bench kernels", "[--peers FILE] [flags]",
    "Times single CUDA kernels: every case is checked against a plain kernel in float, then\n"
    "replayed with cold caches. LoRA: G6 to G8, against vLLM, Punica and S-LoRA on an H200. GEMM: "
    "the\n"
    "products of decode steps, by our kernel and by cuBLASLt. Attention: decode steps and prompts.",
    "  tandem bench kernels --json kernels.json --check\n"
    "  tandem bench kernels --only 'r64 n256'"};

struct KernelBenchSettings {
  std::string peers = TANDEM_PEERS;
  std::string only;
  std::int64_t replays = 50;
};

#if TANDEM_HAVE_CUDA
Result<int> bench_kernels(const KernelBenchSettings& settings,
                          const ReportSettings& report_settings, const std::string& command) {
  if (!std::filesystem::exists(settings.peers)) {
    return error(StatusCode::not_found,
                 "no file '{}' with the peers' figures; it is tests/data/peer_kernels.csv of the "
                 "source tree, name it with --peers",
                 settings.peers);
  }
  TANDEM_ASSIGN(kernels::GpuBench gpu, kernels::GpuBench::create());
  BenchReport report("kernels", command);
  report.fact("GPU", gpu.gpu_name());
  const SteadyClock clock;
  TimePoint told = clock.now();
  const auto progress = [&](std::size_t done, std::size_t total) {
    if (seconds_between(told, clock.now()) < 5 && done < total) return;
    told = clock.now();
    fmt::print(stderr, "LoRA: {} of {} cases\n", done, total);
  };
  TANDEM_TRY(kernels::run_attention_section(gpu, {settings.only, settings.replays}, report));
  TANDEM_TRY(kernels::run_gemm_section(gpu, {settings.only, settings.replays}, report));
  TANDEM_TRY(kernels::run_lora_section(gpu, {settings.peers, settings.only, settings.replays},
                                       report, progress));
  return report.finish(report_settings);
}
#else
Result<int> bench_kernels(const KernelBenchSettings&, const ReportSettings&, const std::string&) {
  return error(StatusCode::unavailable,
               "this build has no CUDA (there was no nvcc when it was configured)");
}
#endif

}  // namespace

int run_bench_kernels(const std::vector<std::string>& args) {
  KernelBenchSettings bench;
  ReportSettings report;
  SettingsTable table;
  add_report_settings(table, report);
  table.group("Benchmark");
  table.add(bench.peers, "peers", "the peers' figures, as tests/data/peer_kernels.csv")
      .meta("FILE")
      .flag_only();
  table.add(bench.only, "only", "cases whose name contains this, as '4096x1024 r8 n32 skewed'")
      .meta("TEXT")
      .flag_only();
  table.add(bench.replays, "replays", "samples of each case").range(1, 1000).flag_only();
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  const Result<int> status = bench_kernels(bench, report, bench_command_line("kernels", args));
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
