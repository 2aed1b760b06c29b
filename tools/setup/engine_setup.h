// Makes a running engine from settings: device, model, tokenizer, adapters. Commands share it.
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
#include "tools/settings/engine_settings.h"
#include "tools/setup/core_setup.h"
#include "tools/setup/kept_costs.h"

namespace tandem {

// Members are destroyed in reverse order: the engine before everything that it uses.
struct EngineSetup {
  SteadyClock clock;
  ModelSpec spec;
  DType dtype = DType::bf16;
  std::string model_name;
  TakenCores cores;
  std::vector<std::unique_ptr<Device>> devices;  // one, or those that share the model
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplates> chat_templates;  // null: the checkpoint has none
  std::unique_ptr<TextCodec> text;
  std::unique_ptr<KeptCosts> kept_costs;  // null: learned costs are not kept
  std::unique_ptr<Engine> engine;
  std::vector<RefusedAdapter> refused_adapters;  // unusable ones, where that does not end the start
};

enum class LoadReport { progress, terminal_only };

// The costs with which an engine plans before it has learned any.
enum class FirstCosts {
  figures,   // those of the profile, or the built-in ones
  measured,  // figures, improved by a calibration if the settings allow it
  kept,      // learned earlier, if there are any, else as measured; new ones are kept
};

// Loads everything, which may take minutes. An adapter that cannot be used is an error, unless it
// was only found below --adapters and the settings are not strict. `report`: whether the log gets
// lines, too. `adapter_roots`: folders into which links of adapters may lead.
Result<std::unique_ptr<EngineSetup>> set_up_engine(
    const EngineSettings& settings, const std::vector<NamedAdapter>& adapters, LoadReport report,
    FirstCosts costs, const std::vector<std::string>& adapter_roots = {});

// The steps of set_up_engine(), for the benchmarks.
// Like host_options_of() with all cores, including those that other engines use.
Result<HostDeviceOptions> choose_host_options(const EngineSettings& settings);
Result<std::unique_ptr<Device>> make_device(const EngineSettings& settings);
// Makes `tensor_parallel` devices.
Result<std::vector<std::unique_ptr<Device>>> make_devices(const EngineSettings& settings);
bool is_for_gpu(const EngineSettings& settings);  // false if that cannot be found out
Result<std::unique_ptr<WeightSource>> open_weights(const EngineSettings& settings,
                                                   const ModelSpec& spec);
// Reads DIR/config.json, or returns a preset's shape if `model` names one.
Result<ModelSpec> find_model_spec(const std::string& model);
Result<DType> choose_dtype(const EngineSettings& settings, const ModelSpec& spec, bool on_gpu);
// Chooses a context length and a number of pages that fit the settings and the memory; logs them.
Result<EngineOptions> choose_engine_options(const EngineSettings& settings, const ModelSpec& spec,
                                            DType dtype, const Device& device,
                                            const WeightSource& weights);

}  // namespace tandem
