#include "gpu/cuda/collectives/nccl_collectives.h"

#include <algorithm>

#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/base/on_gpu.h"
#include "gpu/cuda/collectives/collectives.h"

namespace tandem::cuda {
namespace {

// Memory for the rows gathered at once: 32 rows of a vocabulary of 131,072. It is allocated in
// advance because allocating may fail while ranks wait for each other, and in a recording.
constexpr std::size_t kGatheredBytes = std::size_t{16} << 20;

}  // namespace

Result<std::unique_ptr<NcclCollectives>> NcclCollectives::create(std::span<const int> gpus) {
  std::unique_ptr<NcclCollectives> made(new NcclCollectives);
  TANDEM_ASSIGN(made->ranks_, NcclRanks::create(gpus));
  for (const int gpu : gpus) {
    const OnGpu here(gpu);
    TANDEM_TRY(here.status());
    TANDEM_ASSIGN(made->gathered_.emplace_back(),
                  allocate_device_memory(kGatheredBytes, "rows that NCCL gathers"));
    TANDEM_ASSIGN(made->counts_.emplace_back(),
                  allocate_device_memory(sizeof(std::uint32_t), "a count of NCCL's operations"));
    TANDEM_TRY(cuda_status(cudaMemset(made->counts_.back().get(), 0, sizeof(std::uint32_t)),
                           "cudaMemset"));
    TANDEM_TRY(cuda_status(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize"));
  }
  return made;
}

// Runs `body` between two marks, which show the watch that the rank waits for others.
template <typename Body>
Status NcclCollectives::while_marked(const GroupEnd& end, cudaStream_t stream, Body&& body) {
  auto* const count =
      reinterpret_cast<std::uint32_t*>(counts_[static_cast<std::size_t>(end.rank)].get());
  TANDEM_TRY(launch_mark(count, &end.faults->marks[end.rank], stream));
  TANDEM_TRY(body());
  return launch_mark(count, &end.faults->marks[end.rank], stream);
}

Status NcclCollectives::all_reduce(const AllReduceArgs& args, const GroupEnd& end,
                                   cudaStream_t stream) {
  if (args.part.num_elements() == 0) return {};
  TANDEM_TRY(while_marked(end, stream, [&] {
    return ranks_->all_reduce(end.rank, args.part.data, args.part.data,
                              static_cast<std::size_t>(args.part.num_elements()), Nccl::Type::f32,
                              stream);
  }));
  return launch_all_reduce(args, alone(end), stream);
}

Status NcclCollectives::all_gather(const AllGatherArgs& args, const GroupEnd& end,
                                   cudaStream_t stream) {
  if (args.out.num_elements() == 0) return {};
  const std::int64_t columns = args.out.cols();
  const std::int64_t share = (columns + end.size - 1) / end.size;
  const auto columns_of = [&](std::int32_t rank) {
    return std::clamp<std::int64_t>(columns - rank * share, 0, share);
  };
  const std::int64_t own = columns_of(end.rank);
  if (args.part.cols() != own) {
    return invalid("rank {} of {} has {} of {} columns; NCCL gathers {} of it", end.rank, end.size,
                   args.part.cols(), columns, own);
  }
  auto* const gathered =
      reinterpret_cast<float*>(gathered_[static_cast<std::size_t>(end.rank)].get());
  const std::int64_t most_rows =
      static_cast<std::int64_t>(kGatheredBytes / sizeof(float)) / (share * end.size);
  if (most_rows == 0) return invalid("NCCL gathers no rows of {} columns", columns);
  for (std::int64_t row = 0; row < args.out.rows(); row += most_rows) {
    const std::int64_t rows = std::min(most_rows, args.out.rows() - row);
    const auto count = static_cast<std::size_t>(rows * share);
    const auto* from = static_cast<const float*>(args.part.data) + row * own;
    if (own < share) {  // sends whole shares, so it also fills the columns past the end
      float* const here = gathered + static_cast<std::size_t>(end.rank) * count;
      TANDEM_TRY(cuda_status(
          cudaMemcpyAsync(here, from, static_cast<std::size_t>(rows * own) * sizeof(float),
                          cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync"));
      from = here;
    }
    TANDEM_TRY(while_marked(end, stream, [&] {
      return ranks_->all_gather(end.rank, from, gathered, count, Nccl::Type::f32, stream);
    }));
    ShownParts parts{};
    for (std::int32_t rank = 0; rank < end.size; ++rank) {
      parts.at[rank] = gathered + static_cast<std::size_t>(rank) * count;
      parts.cols[rank] = static_cast<std::int32_t>(columns_of(rank));
    }
    TANDEM_TRY(launch_join(parts, end.size, args.out.slice_rows(row, rows), stream));
  }
  return {};
}

}  // namespace tandem::cuda
