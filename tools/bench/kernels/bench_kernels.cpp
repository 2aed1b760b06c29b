// tandem bench kernels: compares single CUDA kernels with the peers' figures and the memory's
// speed.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/clock.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/common/command_line.h"
#include "tools/bench/kernels/bench_kernels.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/progress.h"
#if TANDEM_HAVE_CUDA
#include "tools/bench/kernels/attention_section.h"
#include "tools/bench/kernels/gemm_section.h"
#include "tools/bench/kernels/gpu_bench.h"
#include "tools/bench/kernels/lora_section.h"
#include "tools/bench/kernels/packed_section.h"
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

// Returns the path of the peers' figures that are installed with this program; empty if there are
// none.
std::string shipped_peers() {
  std::error_code failure;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failure);
  for (const char* data : {TANDEM_DATA, "share/tandem"}) {  // installed, built
    const auto file = (program.parent_path() / data / "peer_kernels.csv").lexically_normal();
    if (std::filesystem::exists(file, failure)) return file;
  }
  return "";
}

struct KernelBenchSettings {
  std::string peers = shipped_peers();
  std::string only;
  std::int64_t replays = 50;
};

#if TANDEM_HAVE_CUDA
Result<int> bench_kernels(const KernelBenchSettings& settings,
                          const ReportSettings& report_settings, const std::string& command) {
  if (settings.peers.empty()) {
    return invalid(
        "the peers' figures did not come with this program; --peers FILE names them "
        "(tests/data/peer_kernels.csv of the source tree)");
  }
  if (!std::filesystem::exists(settings.peers)) {
    return error(StatusCode::not_found, "peers: there is no file '{}'", settings.peers);
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
  TANDEM_TRY(kernels::run_packed_section(gpu, {settings.only, settings.replays}, report));
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
  table
      .add(bench.peers, "peers",
           "figures of other projects to compare with, in the format of peer_kernels.csv")
      .meta("FILE")
      .flag_only();
  table
      .add(bench.only, "only",
           "only cases whose name contains this text, as '4096x1024 r8 n32 skewed'")
      .meta("TEXT")
      .flag_only();
  table.add(bench.replays, "replays", "samples of each case").range(1, 1000).flag_only();
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  const Result<int> status = bench_kernels(bench, report, bench_command_line("kernels", args));
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
