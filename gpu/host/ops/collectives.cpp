// The operations of a group of ranks. Each rank computes all rows by itself, from the parts of all
// ranks: sharing the work would save no more than a second meeting costs.
#include <cstring>

#include "base/check.h"
#include "gpu/host/context/host_communicator.h"
#include "gpu/host/kernels/kernels.h"
#include "gpu/host/ops/operations.h"
#include "gpu/host/ops/row_ranges.h"

namespace tandem::host {

void all_reduce(OpContext& context, const AllReduceArgs& args) {
  auto& end = dynamic_cast<HostCommunicator&>(*args.communicator);
  const MeetingPoint::Parts parts = end.meet(args.part);
  const std::int32_t ranks = end.size();
  const std::int64_t rows = args.part.rows();
  const std::int64_t width = args.part.cols();
  for (std::int32_t r = 0; r < ranks; ++r) {
    const TensorView& part = parts[static_cast<std::size_t>(r)];
    TANDEM_CHECK(part.rows() == rows && part.cols() == width, "rank {} shows {}, rank {} {}", r,
                 to_string(part), end.rank(), to_string(args.part));
  }
  for_row_ranges(
      context, rows, bytes_of(args.part) * (ranks + 2), [&](std::int64_t t, std::int64_t stop) {
        for (; t < stop; ++t) {
          auto* const sum = reinterpret_cast<float*>(args.residual.row_bytes(t));
          for (std::int64_t i = 0; i < width; ++i) {
            float all = 0;
            for (std::int32_t r = 0; r < ranks; ++r) {
              const auto* part = static_cast<const float*>(parts[static_cast<std::size_t>(r)].data);
              all += part[t * width + i];
            }
            sum[i] = args.accumulate ? sum[i] + all : all;
          }
          if (args.weight.rank == 0) continue;
          norm_row({DType::f32, sum, static_cast<const float*>(args.weight.data), width, args.eps,
                    args.out.dtype, args.out.row_bytes(t)});
        }
      });
}

void all_gather(OpContext& context, const AllGatherArgs& args) {
  auto& end = dynamic_cast<HostCommunicator&>(*args.communicator);
  const MeetingPoint::Parts parts = end.meet(args.part);
  std::int64_t width = 0;
  for (std::int32_t r = 0; r < end.size(); ++r) {
    const TensorView& part = parts[static_cast<std::size_t>(r)];
    TANDEM_CHECK(part.rows() == args.out.rows(), "rank {} shows {} for {}", r, to_string(part),
                 to_string(args.out));
    width += part.cols();
  }
  TANDEM_CHECK(width == args.out.cols(), "parts of {} columns for {}", width, to_string(args.out));
  for_row_ranges(context, args.out.rows(), 2 * bytes_of(args.out),
                 [&](std::int64_t t, std::int64_t stop) {
                   for (; t < stop; ++t) {
                     std::byte* to = args.out.row_bytes(t);
                     for (std::int32_t r = 0; r < end.size(); ++r) {
                       const TensorView& part = parts[static_cast<std::size_t>(r)];
                       const auto bytes = static_cast<std::size_t>(part.cols()) * sizeof(float);
                       std::memcpy(to, part.row_bytes(t), bytes);
                       to += bytes;
                     }
                   }
                 });
}

}  // namespace tandem::host
