// An adapter whose progress of being read the test controls, and the device that loads it.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/adapters/adapter_strips.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/adapters/host_tier.h"
#include "tests/support/small_model.h"
#include "tests/support/test_device.h"

namespace tandem::test {

class AdapterBeingRead {
 public:
  static constexpr std::int32_t kLayers = 5;

  explicit AdapterBeingRead(double link_bytes_per_s) {
    const Adapter whole = make_dummy_adapter(config, DType::f32, 16, {"q_proj", "down_proj"}, 1);
    const AdapterBytes bytes =
        host->take(AdapterReading::bytes_with_words(whole.num_bytes, kLayers)).value();
    std::memcpy(bytes.get(), whole.bytes.get(), whole.num_bytes);
    reading = std::make_shared<AdapterReading>(whole, bytes.get(), 7);
    Adapter contents = whole;
    contents.bytes.reset();
    Adapter part = device_layout(contents, config, 1);
    lease = std::make_shared<ServedAdapter>("a", std::move(contents), std::move(part), false, true,
                                            host);
    lease->home().begin_arriving();
    reading->show();
    lease->home().put(bytes, reading);
    LoadSignals signals;
    signals.words = LoadSignals::Words::layers;
    signals.link_bytes_per_s = link_bytes_per_s;
    signals.clock = &clock;
    tier = DeviceTier::create({{device.get(), &memory}}, config, DType::f32, 64, 8, pool, signals)
               .value();
  }
  ~AdapterBeingRead() { end(); }  // before the device's stream is waited for

  // Waits without progress until the next layer is expected to take at least `next_s`, with this
  // time rising; returns the expected times of all layers. The rest as a whole is no measure: if
  // the earlier layers took long, so do later ones, although the next may be due at once.
  std::vector<double> stand_still(double next_s) const {
    double last = next_of(reading->seconds_left());
    for (double now = last;; last = now) {
      std::this_thread::yield();
      std::vector<double> left = reading->seconds_left();
      now = next_of(left);
      if (now >= next_s && now > last) return left;
    }
  }
  void end() {
    reading->end({});
    lease->home().end_reading({});
  }

  const ModelSpec config = small_model(kLayers);
  const SteadyClock clock;
  const std::unique_ptr<Device> device = make_test_device();
  const std::shared_ptr<HostTier> host = HostTier::create(*device, 4 << 20).value();
  const PoolLayout layout = PoolLayout::of(config, DType::f32, 16);
  const KvCache memory = KvCache::create(*device, layout, 60).value();
  PagePool pool{60, 16, layout.chunks_per_page};
  std::shared_ptr<AdapterReading> reading;
  AdapterLease lease;
  std::unique_ptr<DeviceTier> tier;

 private:
  static double next_of(const std::vector<double>& left) {
    return *std::ranges::find_if(left, [](double seconds) { return seconds > 0; });
  }
};

}  // namespace tandem::test
