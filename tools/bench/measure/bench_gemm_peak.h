// FLOP/s of the device's own library in large products, which bound the time of prompts.
#pragma once

#include <array>
#include <memory>

#include "base/status.h"
#include "gpu/device.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

// Measures two shapes; the faster one counts. A GPU lowers its clocks under load, so alternate
// these measurements with those that are compared with them.
class GemmPeak {
 public:
  static Result<std::unique_ptr<GemmPeak>> create(Device& device, DType dtype);

  // Measures each shape `count` times.
  Status sample(int count);
  // Returns the samples since the last call for the faster shape, in TFLOP/s.
  Samples take(const std::string& when);

 private:
  struct Product {
    Buffer x, w, y;
    GemmArgs args;
    Samples samples;
  };

  GemmPeak() = default;

  std::unique_ptr<Stream> stream_;
  std::array<Product, 2> products_;
};

}  // namespace tandem
