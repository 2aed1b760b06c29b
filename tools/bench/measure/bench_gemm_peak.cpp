#include "tools/bench/measure/bench_gemm_peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "engine/loader/random_fill.h"

namespace tandem {
namespace {

constexpr int kCalls = 8;
constexpr std::int64_t kShapes[][3] = {{8192, 8192, 8192}, {4096, 22016, 4096}};

}  // namespace

Result<std::unique_ptr<GemmPeak>> GemmPeak::create(Device& device, DType dtype) {
  std::unique_ptr<GemmPeak> peak(new GemmPeak);
  TANDEM_ASSIGN(peak->stream_, device.create_stream("peak"));
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < peak->products_.size(); ++i) {
    const auto& [m, n, k] = kShapes[i];
    Product& product = peak->products_[i];
    const std::int64_t most = std::max(m * k, n * k);
    TANDEM_ASSIGN(const Buffer staging,
                  device.allocate_pinned(static_cast<std::size_t>(most) * size, "operands"));
    TANDEM_ASSIGN(product.x, device.allocate(static_cast<std::size_t>(m * k) * size, "x"));
    TANDEM_ASSIGN(product.w, device.allocate(static_cast<std::size_t>(n * k) * size, "w"));
    TANDEM_ASSIGN(product.y, device.allocate(static_cast<std::size_t>(m * n) * size, "y"));
    random_fill(1, 0, static_cast<std::size_t>(most), 0, 1, dtype, staging.data());
    peak->stream_->copy_to_device(product.x.data(), staging.data(), product.x.bytes());
    peak->stream_->copy_to_device(product.w.data(), staging.data(), product.w.bytes());
    TANDEM_TRY(peak->stream_->synchronize());
    product.args = {{product.x.data(), dtype, {m, k}},
                    TensorView(product.w.data(), dtype, {n, k}),
                    {},
                    {product.y.data(), dtype, {m, n}}};
    peak->stream_->gemm(product.args);  // the first call selects the kernel
    TANDEM_TRY(peak->stream_->synchronize());
  }
  return peak;
}

Status GemmPeak::sample(int count) {
  const SteadyClock clock;
  for (Product& product : products_) {
    const double flops = 2.0 * static_cast<double>(product.args.y.num_elements()) *
                         static_cast<double>(product.args.x.cols()) * kCalls;
    for (int i = 0; i < count; ++i) {
      TANDEM_TRY(stream_->synchronize());
      const TimePoint start = clock.now();
      for (int call = 0; call < kCalls; ++call) stream_->gemm(product.args);
      TANDEM_TRY(stream_->synchronize());
      product.samples.values.push_back(flops / seconds_between(start, clock.now()) / 1e12);
    }
  }
  return {};
}

Samples GemmPeak::take(const std::string& when) {
  const auto faster = std::ranges::max_element(products_, {}, [](const Product& product) {
    return product.samples.values.empty() ? 0 : product.samples.median();
  });
  Samples best{fmt::format("cuBLASLt product, the best of two large shapes, {}", when), "TFLOP/s",
               std::move(faster->samples.values)};
  for (Product& product : products_) product.samples.values.clear();
  return best;
}

}  // namespace tandem
