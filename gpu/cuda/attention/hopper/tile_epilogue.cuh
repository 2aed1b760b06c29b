// How a tile's result leaves FlashInfer's kernel: from the registers of the multiplying threads
// through shared memory, where the tile's values were, to `out`.
//
// FlashInfer's own epilogue (0.6.7) counts a fast warp twice at the barrier between writing and
// reading shared memory, and admits the next tile's values when one warp, not all, has read it.
// Under compute-sanitizer, where warps drift far apart, that showed as zeros in a row.
#pragma once

#include <algorithm>

#include <cutlass/arch/barrier.h>
#include <cute/tensor.hpp>
#include <flashinfer/attention/hopper/epilogue.cuh>
#include <flashinfer/attention/hopper/named_barrier.cuh>

namespace tandem::cuda {

template <typename Traits>
class TileEpilogue : public flashinfer::CollectiveEpilogue<Traits> {
  using Base = flashinfer::CollectiveEpilogue<Traits>;

  // Every multiplying thread arrives here, and then sees the others' earlier writes.
  __device__ static void meet() {
    cutlass::arch::NamedBarrier::sync(Base::NUM_MMA_THREADS,
                                      static_cast<int>(flashinfer::NamedBarriers::kValueEmpty));
  }

 public:
  // Called by all multiplying threads, which `thread` counts; `product` gives `answer`'s layout.
  template <typename Coord, typename Storage, typename Answer, typename Sums, typename Product>
  __device__ void store(const typename Base::Params& params, const Answer& answer, const Sums&,
                        Storage& storage, Product product, int thread, const Coord& coord) {
    using Element = typename Base::DTypeO;
    constexpr auto kTile = cute::select<0, 1>(typename Base::TileShape_PDV{});
    const int tile = cute::get<0>(coord);
    const int head = cute::get<1>(coord);
    const int first_row = cute::get<3>(coord);
    const int num_rows = cute::get<5>(coord);
    const auto shared =
        cute::make_tensor(cute::make_smem_ptr(storage.smem_o.data()), typename Base::SmemLayoutO{});

    meet();  // the values have been multiplied
    const auto to_shared = cute::make_tiled_copy_C(typename Base::SmemCopyAtomO{}, product);
    const auto part = to_shared.get_thread_slice(thread);
    const auto rounded = flashinfer::convert_type<Element>(answer);
    auto shared_part = part.partition_D(shared);
    cute::copy(to_shared, part.retile_S(rounded), shared_part);
    meet();  // the result is in shared memory

    const auto rows =
        cute::make_tensor(cute::make_gmem_ptr(params.O_ptr + std::int64_t{first_row} *
                                                                 cute::stride<0>(params.layout_O)),
                          params.layout_O);
    const auto out =
        flashinfer::get_local_tile_tensor(rows, kTile, head, 0, num_rows)(cute::_, cute::_, tile);
    const auto place = cute::make_identity_tensor(out.shape());
    typename Base::TiledCopyO to_out;
    const auto own = to_out.get_thread_slice(thread);
    const auto from = own.partition_S(shared);
    const auto places = own.partition_D(place);
    auto to = own.partition_D(out);
    const int left = num_rows - tile * int{cute::get<0>(kTile)};
    CUTE_UNROLL
    for (int i = 0; i < cute::size<1>(from); ++i) {
      if (cute::get<0>(places(0, i, 0)) >= left) continue;
      cute::copy(to_out, from(cute::_, i, cute::_), to(cute::_, i, cute::_));
    }
    meet();  // the next tile's values may arrive
  }
};

}  // namespace tandem::cuda
