#include "tools/setup/engine_setup.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file/file.h"
#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "base/memory/memory_info.h"
#include "engine/adapters/base_name.h"
#include "engine/loader/foreign_checkpoint.h"
#include "engine/loader/gguf/gguf_file.h"
#include "engine/loader/model_files.h"
#include "engine/loader/peft/peft_folder.h"
#include "engine/model/families/registry.h"
#include "engine/model/spec/spread.h"
#include "engine/model/weights/model_weights.h"
#include "gpu/cuda/cuda_device.h"
#include "shm/region.h"
#include "tools/cli/progress.h"
#include "tools/setup/checkpoint_defaults.h"
#include "tools/setup/core_setup.h"
#include "tools/setup/gpus.h"
#include "tools/setup/handoff_setup.h"
#include "tools/setup/model_presets.h"
#include "tools/setup/pool_size.h"
#include "tools/setup/profile_costs.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::string name_of(const EngineSettings& settings) {
  if (!settings.served_model_name.empty()) return settings.served_model_name;
  return name_of_model(settings.model);
}

// True for "meta-llama/Llama-2-7b-hf": one slash, and no path that is absolute or begins with '.'
// or '~'.
bool is_hub_id(const std::string& model) {
  return std::ranges::count(model, '/') == 1 && model.find_first_of("./~") != 0 &&
         !model.ends_with('/');
}

// Dummy weights need no tokenizer file: a tokenizer of bytes stands in.
Result<std::unique_ptr<Tokenizer>> open_tokenizer(const EngineSettings& settings) {
  const auto of_model = [&](Result<std::unique_ptr<Tokenizer>> tokenizer) {
    if (tokenizer) return tokenizer;
    return Result<std::unique_ptr<Tokenizer>>(
        tokenizer.status().with_context("the tokenizer of " + settings.model));
  };
  constexpr const char* kFile = "tokenizer.json";
  if (is_gguf_file(settings.model)) {
    TANDEM_ASSIGN(const nlohmann::json json, translate_gguf(settings.model, kFile));
    return of_model(Tokenizer::of(json));
  }
  constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;
  const Result<std::string> json = read_model_file(settings.model, kFile, kMaxBytes);
  if (!json && json.status().code() == StatusCode::not_found) {
    if (settings.load_format == "dummy") return Tokenizer::parse(byte_tokenizer_json());
    return error(StatusCode::not_found, "{}; the checkpoint must have this file",
                 json.status().message());
  }
  if (!json) return json.status();
  return of_model(Tokenizer::parse(*json));
}

// A template that the user names must parse. If the checkpoint's own does not, the engine still
// starts, and chat requests get the reason as an error.
Result<std::unique_ptr<ChatTemplates>> open_chat_templates(const EngineSettings& settings) {
  constexpr std::uint64_t kMaxBytes = 1U << 20;
  constexpr std::uint64_t kMaxFileBytes = 64U << 20;  // tokenizer_config.json may list all tokens
  const ChatTemplates::ReadFile read = [&](const std::string& name) {
    return read_model_file(settings.model, name, kMaxFileBytes);
  };
  if (!settings.chat_template.empty()) {
    Result<std::string> source = read_text_file(settings.chat_template, kMaxBytes);
    if (!source) return source.status().with_context("chat_template");
    auto made = ChatTemplates::with_template(*source, read);
    if (!made) return made.status().with_context("chat_template: " + settings.chat_template);
    return made;
  }
  auto found = ChatTemplates::load(read);
  if (!found && found.status().code() == StatusCode::not_found) {
    return std::unique_ptr<ChatTemplates>();
  }
  if (!found) return found.status().with_context(settings.model);
  if (const Status problem = (*found)->problem(); !problem) {
    log::warning(
        "the chat template cannot be used: {}; chats are refused (400), all other calls work; "
        "--chat-template FILE gives another",
        problem.message());
  }
  return found;
}

// Returns a sixteenth of the memory, but at most half of the free space in /dev/shm. If that half
// is too small to be useful, it is ignored: the host tier then takes other memory. All of the tier
// is allocated and zeroed at the start.
std::size_t choose_host_tier_bytes(const EngineSettings& settings) {
  if (settings.host_tier_gb > 0) return static_cast<std::size_t>(settings.host_tier_gb * 1e9);
  constexpr std::size_t kLeast = std::size_t{64} << 20;
  constexpr std::size_t kMost = std::size_t{16} << 30;
  const std::size_t share = std::clamp(available_memory() / 16, kLeast, kMost);
  const std::size_t there = free_shm_bytes() / 2 / 4096 * 4096;
  return there < kLeast ? share : std::min(share, there);
}

LinkRule link_rule(const EngineSettings& settings, const std::vector<std::string>& roots) {
  LinkRule links{settings.follow_links_outside, {}};
  const auto add = [&](const std::string& folder) {
    std::error_code failure;
    fs::path real = fs::canonical(folder, failure);
    if (!failure) links.roots.push_back(std::move(real));
  };
  if (!settings.adapters.empty()) add(settings.adapters);
  for (const std::string& root : roots) add(root);
  return links;
}

// The adapters to load at the start; some may prove unusable.
class FirstAdapters {
 public:
  FirstAdapters(const std::vector<NamedAdapter>& all, bool is_strict)
      : left_(all), is_strict_(is_strict) {}

  // Removes the adapters that `check` refuses. Returns an error if a refusal is to end the start.
  Status check_each(const std::function<Status(const NamedAdapter&)>& check) {
    std::vector<NamedAdapter> good;
    for (NamedAdapter& adapter : left_) {
      const Status status = check(adapter);
      if (status) {
        good.push_back(std::move(adapter));
      } else if (is_strict_ || !adapter.is_found) {
        return status.with_context(fmt::format("adapter '{}' from {}", adapter.name, adapter.path));
      } else {
        log::warning(
            "adapter '{}' from {} is left out: {} (with --strict-adapters the server would not "
            "start)",
            adapter.name, adapter.path, status.message());
        refused_.push_back({std::move(adapter.name), std::move(adapter.path), status.message()});
      }
    }
    left_ = std::move(good);
    return {};
  }
  std::vector<RefusedAdapter> take_refused() { return std::move(refused_); }

 private:
  std::vector<NamedAdapter> left_;
  std::vector<RefusedAdapter> refused_;
  const bool is_strict_;
};

Status check_name(const NamedAdapter& adapter, const std::string& model_name) {
  if (adapter.name != model_name) return {};
  return invalid("it has the base model's name; set served_model_name");
}

Status load_adapter(Engine& engine, const NamedAdapter& adapter) {
  TANDEM_TRY(engine.load_adapter(adapter.name, adapter.path, false, false));
  log::info("adapter '{}' loaded from {}", adapter.name, adapter.path);
  return {};
}

std::string device_name(const EngineSetup& setup) {
  const std::string& name = setup.devices.front()->info().name;
  return setup.devices.size() == 1 ? name : fmt::format("{} x {}", setup.devices.size(), name);
}

void choose_first_costs(const EngineSettings& settings, FirstCosts costs, EngineSetup& setup,
                        EngineOptions& options) {
  constexpr double kCalibration_s = 2;
  if (costs == FirstCosts::figures || !goes_by_figures(settings.options.adapter_mode)) return;
  if (costs == FirstCosts::kept) {
    setup.kept_costs = open_kept_costs(settings, setup.spec, setup.dtype,
                                       setup.devices.front()->info(), options.handoff);
    if (setup.kept_costs != nullptr) {
      if (std::optional<EngineLessons> known = setup.kept_costs->read()) {
        options.handoff.lessons = *std::move(known);
        if (!options.handoff.lessons.costs.lacks_stalls()) return;
      }
    }
  }
  std::int32_t workers = 0;
  for (const auto& group : options.handoff.groups) {
    workers += static_cast<std::int32_t>(group.cpus.size());
  }
  if (settings.calibrate && !is_profile_certain(settings, workers)) {
    options.calibrate_s = kCalibration_s;
  }
}

Status check_collectives(const EngineSettings& settings) {
  if (settings.collectives == "auto") return {};
  if (settings.tensor_parallel > 1 && is_for_gpu(settings)) return {};
  return invalid("collectives: {} is for GPUs that share a model; leave it out",
                 settings.collectives);
}

Result<ModelSpec> config_of_folder(const fs::path& folder) {
  Result<ModelSpec> spec = load_model_spec(folder);
  if (spec || spec.status().code() != StatusCode::not_found) return spec;
  std::error_code ignored;
  if (fs::exists(folder / "adapter_config.json", ignored)) {
    return invalid(
        "model: {} is an adapter; name its base model here, and the adapter by --adapter NAME=DIR",
        folder.string());
  }
  if (const std::string foreign = foreign_format(folder); !foreign.empty()) {
    return invalid("model: {}", foreign);
  }
  return invalid("model: {} has no config.json; name a checkpoint folder that has one",
                 folder.string());
}

Status not_downloaded(const std::string& hub_id) {
  if (const auto format = foreign_format_in_name(hub_id); !format.empty()) {
    return invalid(
        "model: there is no folder {}, and the name promises {}, which Tandem does not serve; take "
        "the original checkpoint, which has safetensors of F32, F16 or BF16",
        hub_id, format);
  }
  return invalid(
      "model: there is no folder {0}. If it is a name on Hugging Face's hub: Tandem downloads "
      "nothing; run `hf download {0} --local-dir DIR`, then give --model DIR",
      hub_id);
}

// Opens the GPUs; none if the host device is to be used.
Result<std::vector<std::unique_ptr<Device>>> open_gpus(const EngineSettings& settings) {
  std::vector<std::unique_ptr<Device>> none;
  if (!is_for_gpu(settings)) return none;
  TANDEM_TRY(chosen_gpus(settings).status());
  Result<std::vector<std::unique_ptr<Device>>> gpus = make_gpus(settings);
  if (gpus || settings.device == "cuda" || settings.tensor_parallel > 1) return gpus;
  log::warning("using the host device, not a GPU: {}", gpus.status().message());
  return none;
}

// Makes host devices that divide the threads and cores of one among them.
Result<std::vector<std::unique_ptr<Device>>> make_host_devices(const HostDeviceOptions& all,
                                                               std::size_t count) {
  const auto threads = static_cast<std::size_t>(all.num_threads);
  if (threads < count) {
    return invalid(
        "tensor_parallel: {} devices need a thread each, and there {} {}; use fewer devices, or "
        "more --threads with --no-pin",
        count, threads == 1 ? "is" : "are", threads);
  }
  std::vector<std::unique_ptr<Device>> devices;
  std::size_t first = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t share = threads / count + (i < threads % count ? 1 : 0);
    HostDeviceOptions options = all;
    options.num_threads = static_cast<int>(share);
    if (!all.cpus.empty()) {
      const auto begin = all.cpus.begin() + static_cast<std::ptrdiff_t>(first);
      options.cpus.assign(begin, begin + static_cast<std::ptrdiff_t>(share));
    }
    first += share;
    TANDEM_ASSIGN(devices.emplace_back(), make_host_device(options));
  }
  return devices;
}

// Makes the devices, and takes cores for them.
Status make_devices_on_cores(const EngineSettings& settings, EngineSetup& setup) {
  TANDEM_TRY(check_collectives(settings));
  TANDEM_ASSIGN(setup.devices, open_gpus(settings));
  const bool on_gpu = !setup.devices.empty();
  TANDEM_ASSIGN(const MachineMap machine, read_machine());
  TANDEM_ASSIGN(setup.cores, take_cores(settings, on_gpu, machine, setup.model_name));
  if (on_gpu) return {};
  TANDEM_ASSIGN(setup.devices,
                make_host_devices(host_options_of(settings, setup.cores.plan),
                                  static_cast<std::size_t>(settings.tensor_parallel)));
  return {};
}

}  // namespace

Result<std::unique_ptr<Device>> make_device(const EngineSettings& settings) {
  if (settings.tensor_parallel > 1) {
    return invalid("tensor_parallel: this command measures one device; leave it out");
  }
  TANDEM_ASSIGN(std::vector<std::unique_ptr<Device>> devices, make_devices(settings));
  return std::move(devices.front());
}

Result<std::vector<std::unique_ptr<Device>>> make_devices(const EngineSettings& settings) {
  TANDEM_TRY(check_collectives(settings));
  TANDEM_ASSIGN(std::vector<std::unique_ptr<Device>> gpus, open_gpus(settings));
  if (!gpus.empty()) return gpus;
  TANDEM_ASSIGN(const HostDeviceOptions all, choose_host_options(settings));
  return make_host_devices(all, static_cast<std::size_t>(settings.tensor_parallel));
}

bool is_for_gpu(const EngineSettings& settings) {
  return settings.device == "cuda" || (settings.device == "auto" && !list_cuda_gpus().empty());
}

Result<HostDeviceOptions> choose_host_options(const EngineSettings& settings) {
  MachineOptions here;
  here.gpus = false;
  TANDEM_ASSIGN(const MachineMap machine, read_machine(here));
  TANDEM_ASSIGN(const PinPlan plan, plan_cores(settings, /*on_gpu=*/false, machine));
  return host_options_of(settings, plan);
}

Result<ModelSpec> find_model_spec(const std::string& model) {
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) return config_of_folder(model);
  if (is_gguf_file(model)) {
    Result<ModelSpec> spec = load_model_spec(model);
    if (!spec) return spec.status().with_context("model");
    return spec;
  }
  if (auto preset = model_preset(model)) return *std::move(preset);
  if (fs::exists(model, ignored)) {
    return invalid(
        "model: {} is a file, but no GGUF file; name the folder that holds config.json and the "
        "weights",
        model);
  }
  if (model.ends_with(".gguf")) return invalid("model: there is no file {}", model);
  if (is_hub_id(model)) return not_downloaded(model);
  return invalid(
      "model: {} is neither a folder nor one of the shapes {}; name a checkpoint folder with a "
      "config.json, or a GGUF file",
      model, fmt::join(model_preset_names(), ", "));
}

Result<std::unique_ptr<WeightSource>> open_weights(const EngineSettings& settings,
                                                   const ModelSpec& spec) {
  if (settings.load_format == "dummy") {
    const std::optional<DummyFormat> format = parse_dummy_format(settings.weights);
    if (!format) return invalid("weights: '{}' is unknown", settings.weights);
    return make_dummy_weights(static_cast<std::uint64_t>(settings.seed), spec.norm_adds_one ? 0 : 1,
                              *format);
  }
  if (settings.weights != "bf16") {
    return invalid(
        "weights: '{}' is for dummy weights; a checkpoint's format is read from its files",
        settings.weights);
  }
  if (model_preset(settings.model) && !fs::is_directory(settings.model)) {
    return invalid(
        "model: '{}' is a shape without weights; add --load-format dummy, or name a "
        "checkpoint folder",
        settings.model);
  }
  return open_checkpoint(settings.model);
}

Result<DType> choose_dtype(const EngineSettings& settings, const ModelSpec& spec, bool on_gpu) {
  if (settings.dtype != "auto") return parse_dtype(settings.dtype);
  // On a GPU f32 is for tests only, because it is slow: auto chooses bf16.
  return on_gpu && spec.dtype == DType::f32 ? DType::bf16 : spec.dtype;
}

Result<EngineOptions> choose_engine_options(const EngineSettings& settings, const ModelSpec& spec,
                                            DType dtype, const Device& device,
                                            const WeightSource& weights) {
  if (settings.max_model_len > spec.max_position_embeddings) {
    return invalid("max_model_len: {} is more than the {} positions of the model; lower it",
                   settings.max_model_len, spec.max_position_embeddings);
  }
  std::int64_t length =
      settings.max_model_len > 0 ? settings.max_model_len : spec.max_position_embeddings;
  const std::size_t host_tier_bytes = choose_host_tier_bytes(settings);
  TANDEM_ASSIGN(const PoolShape pool,
                choose_pool(settings, spec, dtype, length, device, weights, host_tier_bytes));
  if (pool.num_pages < pool.pages_for(length)) {
    if (settings.max_model_len > 0) {
      return invalid(
          "max_model_len: {} tokens need {} pages and there are {}; lower it, or raise pool_gb",
          length, pool.pages_for(length), pool.num_pages);
    }
    length = pool.longest_with(pool.num_pages);
    if (length == 0) {
      return invalid("pool_gb: {} pages are fewer than the model's {} groups of layers; raise it",
                     pool.num_pages, pool.groups.count());
    }
    log::warning("context cut to {} tokens, which is what the page pool holds", length);
  }
  EngineOptions options = settings.options;
  options.max_model_len = static_cast<std::int32_t>(length);
  options.num_pages = pool.num_pages;
  options.page_tokens = pool.page_tokens;
  options.constraint_program = "";  // the running program
  const bool graphs = settings.graphs == "auto" ? device.info().is_cuda : settings.graphs != "off";
  options.max_graph_batch = graphs ? static_cast<std::int32_t>(settings.max_graph_batch) : 0;
  options.record_at_start = graphs;
  options.tune_at_start = device.info().is_cuda;
  options.line.by_priority = settings.queue_order == "priority";
  options.host_tier_bytes = host_tier_bytes;
  return options;
}

Result<std::unique_ptr<EngineSetup>> set_up_engine(const EngineSettings& settings,
                                                   const std::vector<NamedAdapter>& adapters,
                                                   LoadReport report, FirstCosts costs,
                                                   const std::vector<std::string>& adapter_roots) {
  auto setup = std::make_unique<EngineSetup>();
  setup->model_name = name_of(settings);
  FirstAdapters first(adapters, settings.strict_adapters);
  TANDEM_TRY(first.check_each(
      [&](const NamedAdapter& adapter) { return check_name(adapter, setup->model_name); }));
  TANDEM_ASSIGN(setup->spec, find_model_spec(settings.model));
  const auto num_devices = static_cast<std::int32_t>(settings.tensor_parallel);
  setup->spec = spread_over(setup->spec, num_devices);
  TANDEM_TRY(check_shards(setup->spec, num_devices));
  if (settings.tensor_parallel > 1 && !settings.record_steps.empty()) {
    return invalid("record_steps: steps of several devices are not recorded; leave it out");
  }
  TANDEM_TRY(make_devices_on_cores(settings, *setup));
  // The device with the least free memory decides, because all pools have the same size.
  const Device& device = **std::ranges::min_element(
      setup->devices, {}, [](const auto& each) { return each->free_bytes(); });
  TANDEM_ASSIGN(setup->dtype, choose_dtype(settings, setup->spec, device.info().is_cuda));
  TANDEM_ASSIGN(const std::unique_ptr<WeightSource> weights, open_weights(settings, setup->spec));
  TANDEM_ASSIGN(EngineOptions options,
                choose_engine_options(settings, setup->spec, setup->dtype, device, *weights));
  TANDEM_ASSIGN(options.handoff, choose_handoff(settings, setup->spec, setup->dtype, device.info(),
                                                setup->model_name, setup->cores.plan));
  options.handoff.place = worker_placer(setup->cores);
  choose_first_costs(settings, costs, *setup, options);
  options.adapter_links = link_rule(settings, adapter_roots);
  if (fs::is_directory(settings.model)) {
    options.base_names = base_names_of(settings.model, settings.served_model_name);
  }
  TANDEM_ASSIGN(setup->chat_templates, open_chat_templates(settings));
  // Checks all but the weights, in milliseconds, before the model's weights are loaded, which takes
  // minutes.
  TANDEM_TRY(first.check_each([&](const NamedAdapter& adapter) {
    return PeftFolder::open(adapter.path, setup->spec, setup->dtype, options.adapter_links)
        .status();
  }));
  options.recording = {settings.record_steps,
                       {settings.model, settings.load_format, settings.seed, settings.weights}};
  if (const std::uint64_t packed = weights->packed_bytes(); packed > 0) {
    std::size_t needed = 0;
    std::size_t dense = 0;
    for (std::int32_t rank = 0; rank < num_devices; ++rank) {
      const Shard shard{rank, num_devices};
      needed += ModelWeights::bytes_needed(setup->spec, shard, setup->dtype, *weights, device);
      dense += ModelWeights::bytes_needed(setup->spec, shard, setup->dtype);
    }
    log::info("{} of quantised weights: all weights take {}, and would take {} in {}",
              bytes_text(static_cast<double>(packed)), bytes_text(static_cast<double>(needed)),
              bytes_text(static_cast<double>(dense)), to_string(setup->dtype));
  }
  TANDEM_ASSIGN(setup->tokenizer, open_tokenizer(settings));
  add_tokenizer_end(settings.model, *setup->tokenizer, setup->spec);
  const bool as_text = settings.special_tokens_in_content == "text";
  setup->text =
      make_text_codec(*setup->tokenizer, setup->chat_templates.get(),
                      as_text ? SpecialTokensInContent::text : SpecialTokensInContent::tokens);
  log::info("{} ({}, {}) on {}: context {} tokens, {} pages of {}", setup->model_name,
            setup->spec.family, to_string(setup->dtype), device_name(*setup), options.max_model_len,
            options.num_pages, options.page_tokens);

  const bool terminal = Progress::is_terminal(STDERR_FILENO);
  Progress progress("loading " + setup->model_name, STDERR_FILENO, terminal, setup->clock);
  const bool shown = terminal || report == LoadReport::progress;
  LoadProgress told;
  if (shown) {
    told = [&progress](std::size_t done, std::size_t total) { progress.update(done, total); };
  } else {
    told = [](std::size_t, std::size_t) {};
  }
  std::vector<Device*> devices;
  for (const auto& each : setup->devices) devices.push_back(each.get());
  TANDEM_ASSIGN(setup->engine, Engine::create(options, setup->spec, *weights, setup->dtype, devices,
                                              *setup->tokenizer, setup->clock, told));
  if (shown) progress.finish();
  TANDEM_TRY(first.check_each(
      [&](const NamedAdapter& adapter) { return load_adapter(*setup->engine, adapter); }));
  setup->refused_adapters = first.take_refused();
  return setup;
}

}  // namespace tandem
