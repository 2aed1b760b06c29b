// A small engine with CPU workers in threads, on a device whose loads a test holds back.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/batching/engine.h"
#include "engine/loader/weights.h"
#include "engine/model/families/registry.h"
#include "engine/model/spec/spread.h"
#include "tests/support/gated_device.h"
#include "tests/support/in_process_pool.h"
#include "tests/support/small_model.h"
#include "tests/support/test_engine.h"

namespace tandem::test {

inline ModelSpec handoff_config() {
  return small_model(3);
}

// Returns the modules of adapter i: all kinds, with and without gaps. Every second adapter has
// those of inputs by layer, if the model has any.
inline std::vector<std::string_view> handoff_modules(int i, const ModelSpec& config) {
  static const std::vector<std::vector<std::string_view>> kinds = {
      {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
      {"q_proj", "v_proj", "down_proj"},
      {"k_proj", "o_proj", "up_proj"},
      {"q_proj", "k_proj", "v_proj"},
      {"gate_proj", "up_proj", "down_proj"}};
  std::vector<std::string_view> modules = kinds[static_cast<std::size_t>(i) % kinds.size()];
  if (config.layer_input_size() > 0 && i % 2 == 0) {
    modules.insert(modules.end(),
                   {"per_layer_model_projection", "per_layer_input_gate", "per_layer_projection"});
  }
  return modules;
}

inline std::string handoff_name(int i) {
  return fmt::format("a{}", i);
}

// Adds a second node with as many workers and half of the host tier.
inline void on_two_nodes(EngineOptions& options) {
  options.handoff.groups.push_back(options.handoff.groups.front());
}

struct HandoffEngine {
  WorkerFaults faults;
  std::unique_ptr<GatedDevice> device;
  std::unique_ptr<GatedDevice> second;  // null if the model is on one device
  std::unique_ptr<Tokenizer> tokenizer;
  SteadyClock clock;
  std::unique_ptr<Engine> engine;

  LoadGate& gate() { return device->gate(); }
  void open() {
    gate().open();
    if (second != nullptr) second->gate().open();
  }
  // Lets the load of adapter i finish, so that none of it is left in the stream.
  void settle(int i) {
    open();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (engine->adapter_store().find(handoff_name(i))->residency() == Residency::loading) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "adapter " << i << " never arrives";
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  // Puts `num_adapters` adapters into the host tier. Starts workers if the mode uses any.
  static std::unique_ptr<HandoffEngine> make(
      AdapterMode mode, int num_adapters, double link_gbps = 0, int silent = 0,
      const std::function<void(EngineOptions&)>& adjust = nullptr,
      const ModelSpec& config = handoff_config(), int num_devices = 1) {
    auto made = assemble(mode, link_gbps, silent, adjust, config, *make_dummy_weights(7),
                         "data/demo-llama", num_devices);
    for (int i = 0; i < num_adapters; ++i) {
      Adapter adapter =
          make_dummy_adapter(config, DType::f32, 3 + i % 14, handoff_modules(i, config),
                             static_cast<std::uint64_t>(100 + i));
      EXPECT_TRUE(made->engine->adapter_store()
                      .add(handoff_name(i), std::move(adapter), false, false)
                      .ok());
    }
    return made;
  }
  // The same for a model's folder and its adapters, under the names of their folders.
  static std::unique_ptr<HandoffEngine> load(
      const std::filesystem::path& dir, AdapterMode mode, double link_gbps = 0,
      const std::function<void(EngineOptions&)>& adjust = nullptr, int num_devices = 1) {
    auto made =
        assemble(mode, link_gbps, 0, adjust, spread_over(load_model_spec(dir).value(), num_devices),
                 *open_checkpoint(dir).value(), dir, num_devices);
    for (const auto& entry : std::filesystem::directory_iterator(dir / "adapters")) {
      const Status loaded = made->engine->load_adapter(entry.path().filename().string(),
                                                       entry.path().string(), false, false);
      EXPECT_TRUE(loaded.ok()) << loaded.message();
    }
    return made;
  }
  ~HandoffEngine() {
    if (device != nullptr) {
      open();
      gate().let_go();
    }
  }

 private:
  static std::unique_ptr<HandoffEngine> assemble(AdapterMode mode, double link_gbps, int silent,
                                                 const std::function<void(EngineOptions&)>& adjust,
                                                 const ModelSpec& config,
                                                 const WeightSource& weights,
                                                 const std::filesystem::path& tokenizer,
                                                 int num_devices) {
    auto made = std::make_unique<HandoffEngine>();
    made->faults.silent = silent;
    made->device = std::make_unique<GatedDevice>(link_gbps);
    std::vector<Device*> devices = {made->device.get()};
    if (num_devices == 2) {
      // The second device's loads arrive some layers later than the first one's.
      made->second = std::make_unique<GatedDevice>(link_gbps / 3);
      devices.push_back(made->second.get());
    }
    made->tokenizer = Tokenizer::load(tokenizer).value();
    EngineOptions options = small_engine_options(256);
    options.num_pages = 4000;
    options.max_adapters = 512;
    options.adapter_mode = mode;
    options.prefix_cache = false;
    if (hands_over(mode)) {
      options.handoff = in_process_workers(2, made->faults);
      options.handoff.max_rows = 128;
      options.handoff.deadline_us = 25'000'000;  // long enough for a sanitizer on a busy machine
      // By these costs workers are immediate and the link endless, so plans hand over if they can.
      options.handoff.costs = {};
      options.handoff.costs.link_bytes_per_s = 1e3;
      options.handoff.costs.worker_job_s = 0;
      options.handoff.costs.trip_s = 0;
    }
    if (adjust) adjust(options);
    made->engine = Engine::create(options, config, weights, DType::f32, devices, *made->tokenizer,
                                  made->clock, nullptr)
                       .value();
    return made;
  }
};

inline GenerationRequest handoff_request(int adapter, int prompt, int tokens) {
  std::vector<TokenId> ids;
  for (int i = 0; i < prompt; ++i) ids.push_back(static_cast<TokenId>(5 + 37 * i + adapter));
  return greedy(std::move(ids), tokens, adapter < 0 ? "" : handoff_name(adapter));
}

}  // namespace tandem::test
