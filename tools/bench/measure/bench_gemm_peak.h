// FLOP/s that the device's own library reaches in large products: of prompts, the floor.
#pragma once

#include <array>
#include <memory>

#include "base/status.h"
#include "gpu/device.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

// Two shapes, of which the faster counts. A GPU under load lowers its clocks, so what is compared
// with a peak has to take turns with it.
class GemmPeak {
 public:
  static Result<std::unique_ptr<GemmPeak>> create(Device& device, DType dtype);

  // Measures each shape `count` times.
  Status sample(int count);
  // Of what was measured since the last call, the faster shape's, in TFLOP/s.
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
