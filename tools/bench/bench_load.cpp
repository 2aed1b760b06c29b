// tandem bench load: compares the speed of reading a warm checkpoint with that of copying memory.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "engine/loader/weights.h"
#include "engine/model/weights/model_weights.h"
#include "tools/bench/bench_load.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/common/command_line.h"
#include "tools/bench/measure/bench_peaks.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/signals.h"
#include "tools/setup/engine_setup.h"
#include "tools/setup/model_presets.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

const CommandInfo kInfo{
    "bench load", "[--size-gb X] [flags]",
    "Writes a checkpoint of llama-2-7b's shapes with fewer layers, loads it several times from "
    "the\n"
    "page cache, and compares with copying memory by the same number of threads.",
    "  tandem bench load --size-gb 4"};

constexpr std::uint64_t kSeed = 1;

struct LoadBenchSettings {
  double size_gb = 2;
  std::string folder;
  std::int64_t rounds = 5;
};

struct TensorPlan {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t bytes() const {
    std::size_t count = sizeof(bf16);
    for (const std::int64_t dim : shape) count *= static_cast<std::size_t>(dim);
    return count;
  }
};

std::vector<TensorPlan> tensors_of(const ModelSpec& c) {
  std::vector<TensorPlan> plan = {{"model.embed_tokens.weight", {c.vocab_size, c.hidden_size}},
                                  {"lm_head.weight", {c.vocab_size, c.hidden_size}},
                                  {"model.norm.weight", {c.hidden_size}}};
  for (std::int64_t layer = 0; layer < c.num_layers(); ++layer) {
    const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
      plan.push_back({fmt::format("model.layers.{}.{}.weight", layer, name), std::move(shape)});
    };
    add("input_layernorm", {c.hidden_size});
    add("post_attention_layernorm", {c.hidden_size});
    add("self_attn.q_proj", {c.q_size(), c.hidden_size});
    add("self_attn.k_proj", {c.kv_size(), c.hidden_size});
    add("self_attn.v_proj", {c.kv_size(), c.hidden_size});
    add("self_attn.o_proj", {c.hidden_size, c.q_size()});
    add("mlp.gate_proj", {c.mlp().size, c.hidden_size});
    add("mlp.up_proj", {c.mlp().size, c.hidden_size});
    add("mlp.down_proj", {c.hidden_size, c.mlp().size});
  }
  return plan;
}

// Writes `source` to DIR/model.safetensors and leaves the file in the page cache.
Status write_checkpoint(const fs::path& dir, const ModelSpec& spec, const WeightSource& source) {
  const std::vector<TensorPlan> plan = tensors_of(spec);
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::size_t offset = 0;
  for (const TensorPlan& tensor : plan) {
    header[tensor.name] = {{"dtype", "BF16"},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the format aligns the data with spaces
  const std::uint64_t length = text.size();
  const fs::path path = dir / "model.safetensors";
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  std::vector<char> bytes;
  for (const TensorPlan& tensor : plan) {
    bytes.resize(tensor.bytes());
    TANDEM_TRY(source.read(tensor.name, tensor.shape, DType::bf16, bytes.data()));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  file.close();
  if (!file) return errno_status("writing " + path.string(), errno == 0 ? EIO : errno);
  return {};
}

// Checks that what was loaded equals `source`: embedding, head, and one matrix of every layer.
Status check_loaded(const ModelSpec& spec, const WeightSource& source,
                    const ModelWeights& weights) {
  std::vector<std::byte> expected;
  const auto same = [&](const std::string& name, const TensorView& view) -> Status {
    const std::int64_t shape[] = {view.dim[0], view.dim[1]};
    expected.resize(static_cast<std::size_t>(view.num_elements()) * sizeof(bf16));
    TANDEM_TRY(source.read(name, shape, DType::bf16, expected.data()));
    if (std::memcmp(expected.data(), view.data, expected.size()) != 0) {
      return error(StatusCode::internal, "{} was loaded wrongly: nothing was timed", name);
    }
    return {};
  };
  TANDEM_TRY(same("model.embed_tokens.weight", weights.embedding().data));
  TANDEM_TRY(same("lm_head.weight", weights.head().data));
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    TANDEM_TRY(same(fmt::format("model.layers.{}.mlp.down_proj.weight", layer),
                    weights.layer(layer).down.front().data));
  }
  return {};
}

// A folder of our own, which the destructor removes.
class TemporaryFolder {
 public:
  static Result<std::unique_ptr<TemporaryFolder>> create(const std::string& parent) {
    std::error_code failure;
    const fs::path base = parent.empty() ? fs::temp_directory_path(failure) : fs::path(parent);
    std::string name = (base / "tandem-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      return errno_status("making a folder in " + base.string(), errno);
    return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(name));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

Result<int> bench_load(const EngineSettings& engine, const LoadBenchSettings& settings,
                       const ReportSettings& reporting, const std::string& command) {
  ModelSpec spec = *model_preset("llama-2-7b");
  const LayerSpec one = spec.layers.front();
  spec.layers.clear();
  const auto without = static_cast<double>(ModelWeights::bytes_needed(spec, {}, DType::bf16));
  spec.layers = {one};
  const double layer =
      static_cast<double>(ModelWeights::bytes_needed(spec, {}, DType::bf16)) - without;
  const auto fit = static_cast<std::int64_t>((settings.size_gb * 1e9 - without) / layer);
  spec.layers.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, fit)), one);
  const auto bytes = static_cast<double>(ModelWeights::bytes_needed(spec, {}, DType::bf16));

  TANDEM_ASSIGN(const HostDeviceOptions host, choose_host_options(engine));
  TANDEM_ASSIGN(const auto device, make_device(engine));
  // The checkpoint must not outlive an interrupted run.
  TANDEM_ASSIGN(const auto signals, StopSignals::create());
  signals->set_graceful(true);
  BenchReport report("load", command);
  report.fact("device", device->info().name);
  report.fact("checkpoint",
              fmt::format("{} bf16, {} layers", bytes_text(bytes), spec.num_layers()));

  TANDEM_ASSIGN(const auto folder, TemporaryFolder::create(settings.folder));
  const auto source = make_dummy_weights(kSeed);
  log::info("writing the checkpoint to {}", folder->path().string());
  TANDEM_TRY(write_checkpoint(folder->path(), spec, *source));

  const SteadyClock clock;
  Samples copy{"memory copy", "GB/s", {}};
  Samples load{"load", "GB/s", {}};
  TANDEM_ASSIGN(const auto memory,
                MemorySpeed::create(std::size_t{1} << 30, host.num_threads, host.cpus));
  for (std::int64_t round = -1; round < settings.rounds; ++round) {
    if (signals->stop_requested()) return signals->exit_status(kExitOk);
    const double speed = memory->copy_pass();
    const TimePoint start = clock.now();
    TANDEM_ASSIGN(const auto checkpoint, open_checkpoint(folder->path()));
    TANDEM_ASSIGN(const ModelWeights weights,
                  ModelWeights::load(spec, {}, *checkpoint, DType::bf16, *device,
                                     [](std::size_t, std::size_t) {}));
    const double seconds = seconds_between(start, clock.now());
    if (round < 0) {
      TANDEM_TRY(check_loaded(spec, *source, weights));
      continue;
    }
    copy.values.push_back(speed / 1e9);
    load.values.push_back(bytes / seconds / 1e9);
  }
  report.add(copy);
  report.add(load);
  report.add({"H7", "loading a warm checkpoint over copying memory", load.median() / copy.median(),
              "", Must::be_at_least, 0.5});
  return report.finish(reporting);
}

}  // namespace

int run_bench_load(const std::vector<std::string>& args) {
  EngineSettings engine;
  LoadBenchSettings settings;
  ReportSettings reporting;
  SettingsTable table;
  add_report_settings(table, reporting);
  table.group("Benchmark");
  table.add(settings.size_gb, "size_gb", "size of the checkpoint in gigabytes")
      .range(0.1, 1000)
      .flag_only();
  table.add(settings.folder, "folder", "folder for the checkpoint; default: the temporary folder")
      .meta("DIR")
      .flag_only();
  table.add(settings.rounds, "rounds", "timed loads").range(1, 1000).flag_only();
  add_device_settings(table, engine);
  add_log_settings(table, engine.log);
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  set_up_log(engine.log);
  const Result<int> status =
      bench_load(engine, settings, reporting, bench_command_line("load", args));
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
