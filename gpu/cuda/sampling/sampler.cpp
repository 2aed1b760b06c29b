#include "gpu/cuda/sampling/sampler.h"

#include <algorithm>

#include "base/check.h"
#include "gpu/cuda/sampling/sampling_kernels.h"

namespace tandem::cuda {
namespace {

// Enough for 512 rows of the largest vocabularies: 1.5 MB.
constexpr std::int64_t kMaxPartials = 32 * 1024;
constexpr std::int64_t kMaxRows = 65'535;  // limit of a launch's grid

}  // namespace

Result<std::unique_ptr<Sampler>> Sampler::create() {
  TANDEM_ASSIGN(DeviceMemory partials, allocate_device_memory(kMaxPartials * sizeof(SampleTile),
                                                              "the scratch of sampling"));
  return std::unique_ptr<Sampler>(new Sampler(std::move(partials)));
}

Status Sampler::run(const SampleArgs& args, cudaStream_t stream) {
  const std::int64_t num_rows = args.logits.rows();
  const std::int64_t vocab = args.logits.cols();
  if (num_rows == 0 || vocab == 0) return {};
  TANDEM_CHECK(args.logits.rank == 2 && args.logits.dtype == DType::f32, "logits {}",
               to_string(args.logits));
  const std::int64_t tiles = (vocab + kSampleTile - 1) / kSampleTile;
  TANDEM_CHECK(tiles <= kMaxPartials, "a vocabulary of {}", vocab);
  const std::int64_t part = std::min(kMaxPartials / tiles, kMaxRows);
  for (std::int64_t first = 0; first < num_rows; first += part) {
    SampleKernelArgs kernel{};
    kernel.logits = args.logits.ptr<float>() + first * args.logits.stride[0];
    kernel.stride = args.logits.stride[0];
    kernel.vocab = static_cast<std::int32_t>(vocab);
    kernel.tiles = static_cast<std::int32_t>(tiles);
    kernel.vectors =
        kernel.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(kernel.logits) % 16 == 0;
    kernel.rows = args.rows + first;
    kernel.history = args.history;
    kernel.biases = args.biases;
    kernel.masks = args.masks;
    kernel.mask_words = mask_words(vocab);
    kernel.partials = reinterpret_cast<SampleTile*>(partials_.get());
    kernel.out = args.out + first;
    const auto count = static_cast<std::int32_t>(std::min(part, num_rows - first));
    TANDEM_TRY(launch_survey(kernel, count, stream));
    TANDEM_TRY(launch_choose(kernel, count, stream));
  }
  return {};
}

}  // namespace tandem::cuda
