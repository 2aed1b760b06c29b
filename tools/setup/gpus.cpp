#include "tools/setup/gpus.h"

#include <numeric>
#include <string>

#include "cpu_lora/topology/machine_map.h"
#include "gpu/cuda/cuda_device.h"

namespace tandem {

Result<std::vector<int>> chosen_gpus(const EngineSettings& settings) {
  const auto count = static_cast<std::size_t>(settings.tensor_parallel);
  if (settings.gpus.empty()) {
    std::vector<int> gpus(count);
    std::iota(gpus.begin(), gpus.end(), 0);
    return gpus;
  }
  const Result<std::vector<int>> listed = parse_id_list(settings.gpus);
  if (!listed) return invalid("gpus: '{}' is not a list as in 0,1 or 0-3", settings.gpus);
  if (listed->size() != count) {
    return invalid("gpus: {} names {} GPUs, but tensor_parallel is {}; make the numbers agree",
                   settings.gpus, listed->size(), count);
  }
  return *listed;
}

int first_gpu(const EngineSettings& settings) {
  const Result<std::vector<int>> gpus = chosen_gpus(settings);
  return gpus ? gpus->front() : 0;
}

EngineSettings on_first_device(EngineSettings settings) {
  settings.gpus = std::to_string(first_gpu(settings));
  settings.tensor_parallel = 1;
  return settings;
}

Result<std::vector<std::unique_ptr<Device>>> make_gpus(const EngineSettings& settings) {
  TANDEM_ASSIGN(const std::vector<int> gpus, chosen_gpus(settings));
  GroupOptions group;
  if (const auto collectives = parse_collectives(settings.collectives)) {
    group.collectives = *collectives;
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (const int gpu : gpus) {
    Result<std::unique_ptr<Device>> device = make_cuda_device({gpu, settings.link_gbps, group});
    if (!device) {
      return error(device.status().code(), "device cuda: {}; --device host computes on the CPU",
                   device.status().message());
    }
    devices.push_back(std::move(device).value());
  }
  return devices;
}

}  // namespace tandem
