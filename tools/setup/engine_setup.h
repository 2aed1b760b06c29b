// From settings to a running engine: device, model, tokenizer, adapters. Shared by the commands.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/batching/engine.h"
#include "engine/loader/weights.h"
#include "engine/model/spec/model_spec.h"
#include "engine/server/messages/text_codec.h"
#include "engine/server/options/server_options.h"
#include "engine/tokenizer/jinja/chat_templates.h"
#include "engine/tokenizer/tokenizer.h"
#include "gpu/device.h"
#include "gpu/host/host_device.h"
#include "tools/cli/settings.h"
#include "tools/setup/core_setup.h"
#include "tools/setup/kept_costs.h"

namespace tandem {

// Members are destroyed last first: the engine before all that it uses.
struct EngineSetup {
  SteadyClock clock;
  ModelSpec config;
  DType dtype = DType::bf16;
  std::string model_name;
  TakenCores cores;
  std::vector<std::unique_ptr<Device>> devices;  // one, or those that share the model
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplates> chat_templates;  // null: the checkpoint has none
  std::unique_ptr<TextCodec> text;
  std::unique_ptr<KeptCosts> kept_costs;  // null: nothing is kept
  std::unique_ptr<Engine> engine;
  std::vector<RefusedAdapter> refused_adapters;  // of `adapters`, where that ends no start
};

enum class LoadReport { progress, terminal_only };

// What it plans with before it has learnt anything.
enum class FirstCosts {
  figures,   // the profile's, or the built-in ones
  measured,  // and what a calibration says, if the settings let it
  kept,      // or, instead of that, what was learnt before; what it learns is to be kept
};

// Loads everything; takes as long as that takes. An adapter that cannot be used is an error, unless
// it was only found below --adapters and the settings are not strict. `report`: whether a log gets
// lines, too. `adapter_roots`: folders into which links of adapters may lead.
Result<std::unique_ptr<EngineSetup>> set_up_engine(
    const EngineSettings& settings, const std::vector<NamedAdapter>& adapters, LoadReport report,
    FirstCosts costs, const std::vector<std::string>& adapter_roots = {});

// The parts, for the benchmarks.
// As host_options_of() the cores that there are, whoever else has some.
Result<HostDeviceOptions> choose_host_options(const EngineSettings& settings);
Result<std::unique_ptr<Device>> make_device(const EngineSettings& settings);
// As many as `tensor_parallel` says.
Result<std::vector<std::unique_ptr<Device>>> make_devices(const EngineSettings& settings);
bool is_for_gpu(const EngineSettings& settings);  // unless that fails
Result<std::unique_ptr<WeightSource>> open_weights(const EngineSettings& settings);
// From DIR/config.json, or a preset's shape when `model` names one.
Result<ModelSpec> find_model_spec(const std::string& model);
Result<DType> choose_dtype(const EngineSettings& settings, const ModelSpec& config, bool on_gpu);
// Context length and pages that fit the settings and the memory; logs what it chose.
Result<EngineOptions> choose_engine_options(const EngineSettings& settings, const ModelSpec& config,
                                            DType dtype, const Device& device);

}  // namespace tandem
