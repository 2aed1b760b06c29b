// y[t, o] = (y[t, o] +) sum_i x[t, i] w[o, i] (+ bias[o]) for T <= 32 rows t. Bound by reading w.
//
// Grid: one block per multiprocessor, each with an equal range of w's rows, in groups of up to 32.
// Within a group the block walks the inner dimension in chunks of 256. One producer thread orders
// the copies of the chunk's rows of w, and of x, into a ring of shared-memory stages. Eight
// consumer warps take 32 of the 256 columns each: w is the tensor core's 16-row operand, x, padded
// to eights, the 8-column one. The warps' sums meet in shared memory, in a fixed order.
//
// The order of the inner dimension is free in a sum. So a thread takes 16 consecutive bytes of a
// row of either operand as its part of two products (columns 8 tig .. 8 tig + 7 of 32): one
// ld.shared.v4 instead of ldmatrix. w and x are viewed as [rows, in / 64, 64] and copied in boxes
// [rows, 4, 64] with the copy engine's 128-byte swizzle, so that 512 bytes of a row are fetched
// together and a quarter warp's loads of two rows touch all banks once.
//
// A product that ends in swiglu: a group has up to 16 rows of gate and the 16 matching rows
// of up, in two boxes. A warp's upper lanes finish up's sums and hand them to its lower
// lanes.
//
// Weights never change, so the ring is filled with them before earlier kernels have ended; x and y
// are read after that.
//
// Variants tried on one H200 (us for q/k/v of llama-2-7b at one row; lower bound 23.5):
//   a bulk copy of 512 bytes per row and stage      71    the copy engine starts one every 40 ns
//   one tensor copy per stage (this)                25.4  8 rows 25.1, 16 rows 25.5, 32 rows 26.3
//   half the shared memory, two kernels at a time   25.5  good only if all kernels of a step want
//                                                         the same division of L1: otherwise each
//                                                         change drains the processors (+12 us)
//   clusters of 2 that share the inner dimension    28.1  the later start costs more than it gains
//   64 rows of w in a stage                         25.8
//   chunks beyond the ring fetched into L2          27.0  up to 8 of them
//   the next product's weights fetched into L2 by attention and LoRA, which leave memory idle, 8 to
//     28 MB: steps took as long, or up to 4 % longer
//   two or three stages fewer, so that blocks of LoRA are placed before these end (32 rows, each
//     with an adapter): steps took 2 to 4 % longer
//   the last seventh in units of 8 rows to the      27.5  blocks end up to a tenth apart, as their
//     first block there                                   processors get different bandwidth, but
//                                                         stages of 4 KB are slower still

#include <algorithm>
#include <cstdint>

#include "gpu/cuda/base/async_copy.cuh"
#include "gpu/cuda/base/cache_policy.cuh"
#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/activation.cuh"
#include "gpu/cuda/gemm/skinny_gemm.h"

namespace tandem::cuda {
namespace {

constexpr int kConsumers = 8;  // warps
constexpr int kThreads = (kConsumers + 1) * 32;
constexpr int kChunk = 256;            // columns per stage
constexpr int kRowBytes = kChunk * 2;  // per stage
constexpr int kGroup = 32;             // maximum number of rows of w per stage
constexpr int kHalfGroup = kGroup / 2;
constexpr int kAlignment = 1024;  // the swizzle's period
constexpr int kMaxStages = 8;
constexpr int kBarrierBytes = 1024;  // full[8], empty[8]

struct SkinnyParams {
  void* y;                // [rows, out]
  const void* bias;       // [out] or null
  std::int64_t y_stride;  // elements
  int in, rows;
  int out;       // columns of y
  int groups;    // per block
  int box_rows;  // rows of w per box, in the largest group
  int stages;
  bool y_is_f32;
  bool accumulate;
  bool swiglu;  // true: row `out` + o of w belongs with row o
  bool gelu;    // the activation is gelu_tanh, not silu
};

constexpr int kReduceColumn = kGroup + 4;  // floats; the 4 avoid bank conflicts of stores
constexpr int kReduceFloats = kConsumers * 8 * kReduceColumn;

// Shared memory: barriers | stages | reduce[2]. A stage: w, then x.
__host__ __device__ constexpr int stage_bytes(int rows) {
  return (kGroup + (rows + 1) / 2 * 2) * kRowBytes;
}
constexpr int kFixedBytes = kAlignment + kBarrierBytes + 2 * kReduceFloats * 4;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // no older GPU is asked

// The columns of y that a block computes, cut into equal groups.
struct Share {
  int begin, count, groups;
  __device__ explicit Share(const SkinnyParams& p) : groups(p.groups) {
    const auto block = static_cast<std::int64_t>(blockIdx.x);
    begin = static_cast<int>(p.out * block / gridDim.x);
    count = static_cast<int>(p.out * (block + 1) / gridDim.x) - begin;
  }
  __device__ int group_begin(int group) const { return begin + count * group / groups; }
  __device__ int group_rows(int group) const { return group_begin(group + 1) - group_begin(group); }
};

// Runs on the one thread that fills the ring.
__device__ void produce(const SkinnyParams& p, const CUtensorMap* w, const CUtensorMap* x,
                        const Share& share, int chunks, std::uint32_t full, std::uint32_t empty,
                        std::uint32_t stages) {
  const std::uint64_t once = evict_first_policy();
  const std::uint64_t again = evict_last_policy();
  const auto bytes =
      static_cast<std::uint32_t>((p.box_rows * (p.swiglu ? 2 : 1) + p.rows) * kRowBytes);
  const auto place = [&](int stage) {
    return stages + static_cast<unsigned>(stage * stage_bytes(p.rows));
  };
  const auto load_w = [&](int i, int stage) {
    const std::uint32_t barrier = full + 8U * static_cast<unsigned>(stage);
    barrier_expect(barrier, bytes);
    const int row = share.group_begin(i / chunks);
    tensor_copy(place(stage), w, i % chunks * 4, row, barrier, once);
    if (p.swiglu) {
      tensor_copy(place(stage) + kHalfGroup * kRowBytes, w, i % chunks * 4, p.out + row, barrier,
                  once);
    }
  };
  const auto load_x = [&](int i, int stage) {
    tensor_copy(place(stage) + kGroup * kRowBytes, x, i % chunks * 4, 0,
                full + 8U * static_cast<unsigned>(stage), again);
  };
  const int total = share.groups * chunks;
  const int ahead = min(total, p.stages);
  for (int i = 0; i < ahead; ++i) load_w(i, i);
  wait_for_previous_kernels();
  for (int i = 0; i < ahead; ++i) load_x(i, i);
  int stage = 0;
  std::uint32_t round = 0;
  for (int i = ahead; i < total; ++i) {
    // Acquires the consumers' arrivals of the previous round: the stage has been read.
    barrier_wait(empty + 8U * static_cast<unsigned>(stage), round & 1);
    load_w(i, stage);
    load_x(i, stage);
    if (++stage == p.stages) stage = 0, ++round;
  }
}

// Called by the consumers only.
__device__ __forceinline__ void consumer_barrier() {
  asm volatile("bar.sync 1, %0;" ::"n"(kConsumers * 32) : "memory");
}

#endif

template <typename Element, int kColTiles>
__global__ void __launch_bounds__(kThreads)
    skinny_gemm(const __grid_constant__ CUtensorMap w_map,
                const __grid_constant__ CUtensorMap x_map, const SkinnyParams p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  extern __shared__ std::byte unaligned[];
  std::byte* const shared = unaligned + (0U - shared_address(unaligned)) % kAlignment;
  const std::uint32_t full = shared_address(shared);
  const std::uint32_t empty = full + 8 * kMaxStages;
  const std::uint32_t stages = full + kBarrierBytes;
  auto* const reduce =
      reinterpret_cast<float*>(shared + kBarrierBytes + p.stages * stage_bytes(p.rows));

  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const Share share(p);
  const int chunks = (p.in + kChunk - 1) / kChunk;

  allow_next_kernel();
  if (thread == 0) {
    tensor_prefetch(&w_map);
    tensor_prefetch(&x_map);
    for (int s = 0; s < p.stages; ++s) {
      barrier_init(full + 8U * static_cast<unsigned>(s), 1);
      barrier_init(empty + 8U * static_cast<unsigned>(s), kConsumers);
    }
    barrier_init_fence();
  }
  __syncthreads();

  if (warp == kConsumers) {
    if (lane == 0) produce(p, &w_map, &x_map, share, chunks, full, empty, stages);
  } else {
    wait_for_previous_kernels();
    const int row_in_tile = lane / 4;
    // A warp's 32 columns are half of a 128-byte line, whose 16-byte pieces are swizzled by the
    // line's number.
    const auto in_stage = [&](int line_row) {
      const int line = warp / 2;
      const int piece = (warp % 2 * 4 + lane % 4) ^ (line_row % 2 * 4 + line);
      return static_cast<unsigned>(line_row * kRowBytes + line * 128 + piece * 16);
    };
    // This thread sums row `row` (of w) of the group, and rows 8 c + col of x.
    const int row = thread % kGroup;
    const int col = thread / kGroup;
    int stage = 0;
    std::uint32_t round = 0;
    for (int group = 0; group < share.groups; ++group) {
      const int first_row = share.group_begin(group);
      const int group_rows = share.group_rows(group);
      float sum[kColTiles];
#pragma unroll
      for (int c = 0; c < kColTiles; ++c) {
        sum[c] = 0;
        if (row >= group_rows || c * 8 + col >= p.rows) continue;
        const std::int64_t o = first_row + row;
        if (p.bias != nullptr) sum[c] = to_float(static_cast<const Element*>(p.bias)[o]);
        if (!p.accumulate) continue;
        const std::int64_t at = (c * 8 + col) * p.y_stride + o;
        sum[c] += p.y_is_f32 ? static_cast<const float*>(p.y)[at]
                             : to_float(static_cast<const Element*>(p.y)[at]);
      }

      float d[2][kColTiles][4] = {};
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const std::uint32_t base = stages + static_cast<unsigned>(stage * stage_bytes(p.rows));
        barrier_wait(full + 8U * static_cast<unsigned>(stage), round & 1);
        const std::uint32_t at = base + in_stage(row_in_tile);
        const uint4 w[2][2] = {
            {load_shared(at), load_shared(at + 8 * kRowBytes)},
            {load_shared(at + 16 * kRowBytes), load_shared(at + 24 * kRowBytes)}};
#pragma unroll
        for (int c = 0; c < kColTiles; ++c) {
          // Columns of the product past T repeat the last row; they are never read.
          const uint4 x = load_shared(base + kGroup * kRowBytes +
                                      in_stage(min(c * 8 + row_in_tile, p.rows - 1)));
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            mma_16x8x16<Element>(d[r][c], w[r][0].x, w[r][1].x, w[r][0].y, w[r][1].y, x.x, x.y);
            mma_16x8x16<Element>(d[r][c], w[r][0].z, w[r][1].z, w[r][0].w, w[r][1].w, x.z, x.w);
          }
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + 8U * static_cast<unsigned>(stage));
        if (++stage == p.stages) stage = 0, ++round;
      }

#pragma unroll
      for (int c = 0; c < kColTiles; ++c) {
        float* const buffer = reduce + (group * kColTiles + c) % 2 * kReduceFloats;
        float* const mine = buffer + (warp * 8 + lane % 4 * 2) * kReduceColumn + row_in_tile;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          mine[r * 16] = d[r][c][0];
          mine[r * 16 + kReduceColumn] = d[r][c][1];
          mine[r * 16 + 8] = d[r][c][2];
          mine[r * 16 + 8 + kReduceColumn] = d[r][c][3];
        }
        // With two buffers, a thread that passes here has already read the buffer written next.
        consumer_barrier();
        const float* const from = buffer + col * kReduceColumn + row;
#pragma unroll
        for (int v = 0; v < kConsumers; ++v) sum[c] += from[v * 8 * kReduceColumn];
      }
      if (p.swiglu) {
#pragma unroll
        for (int c = 0; c < kColTiles; ++c) {
          const float half = to_float(from_float<Element>(sum[c]));
          const float up = __shfl_down_sync(0xffffffffU, half, kHalfGroup);
          if (row < kHalfGroup) sum[c] = (p.gelu ? gelu_tanh(half) : silu(half)) * up;
        }
      }
#pragma unroll
      for (int c = 0; c < kColTiles; ++c) {
        if (row >= group_rows || c * 8 + col >= p.rows) continue;
        const std::int64_t at = (c * 8 + col) * p.y_stride + first_row + row;
        if (p.y_is_f32) {
          static_cast<float*>(p.y)[at] = sum[c];
        } else {
          static_cast<Element*>(p.y)[at] = from_float<Element>(sum[c]);
        }
      }
    }
  }
#endif
}

template <typename Body>
Status dispatch_rows(DType dtype, std::int64_t rows, Body&& body) {
  const auto columns = [&]<typename Element>() {
    if (rows <= 8) return body(skinny_gemm<Element, 1>);
    if (rows <= 16) return body(skinny_gemm<Element, 2>);
    return body(skinny_gemm<Element, 4>);
  };
  return dtype == DType::f16 ? columns.template operator()<__half>()
                             : columns.template operator()<__nv_bfloat16>();
}

}  // namespace

Result<SkinnyDevice> prepare_skinny_gemm() {
  SkinnyDevice made;
  int device = 0;
  int major = 0;
  TANDEM_TRY(cuda_status(cudaGetDevice(&device), "finding the GPU"));
  const auto get = [&](int& value, cudaDeviceAttr attribute) {
    return cuda_status(cudaDeviceGetAttribute(&value, attribute, device), "asking the GPU");
  };
  TANDEM_TRY(get(major, cudaDevAttrComputeCapabilityMajor));
  TANDEM_TRY(get(made.processors, cudaDevAttrMultiProcessorCount));
  TANDEM_TRY(get(made.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin));
  if (major < 9) return made;
  TANDEM_ASSIGN(made.encode, find_tensor_map_encoder());
  if (made.encode == nullptr) return made;
  made.supported = true;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const int rows : {8, 16, 32}) {
      TANDEM_TRY(dispatch_rows(dtype, rows, [&](auto* kernel) {
        return use_all_shared_memory(reinterpret_cast<const void*>(kernel), made.shared_bytes);
      }));
    }
  }
  return made;
}

bool skinny_gemm_takes(const GemmArgs& args) {
  return has_few_rows(args, kSkinnyMaxRows);
}

Status launch_skinny_gemm(const GemmArgs& args, const SkinnyDevice& device, cudaStream_t stream,
                          GemmEnd end) {
  const auto rows = static_cast<int>(args.x.rows());
  SkinnyParams p{};
  p.y = args.y.data;
  p.bias = args.bias.rank > 0 ? args.bias.data : nullptr;
  p.y_stride = args.y.stride[0];
  p.in = static_cast<int>(args.x.cols());
  p.swiglu = end != GemmEnd::store;
  p.gelu = end == GemmEnd::geglu;
  p.out = static_cast<int>(args.y.cols());
  p.rows = rows;
  p.y_is_f32 = args.y.dtype == DType::f32;
  p.accumulate = args.accumulate;
  const int blocks = std::min(device.processors, p.out);
  const int share = (p.out + blocks - 1) / blocks;
  const int most = p.swiglu ? kHalfGroup : kGroup;
  p.groups = (share + most - 1) / most;
  p.box_rows = (share + p.groups - 1) / p.groups;
  p.stages = std::min((device.shared_bytes - kFixedBytes) / stage_bytes(rows), kMaxStages);
  TANDEM_CHECK(p.stages >= 2, "{} bytes of shared memory", device.shared_bytes);
  constexpr int kSlabs = kChunk / kTensorSlab;
  TANDEM_ASSIGN(const CUtensorMap w_map,
                tensor_map(device.encode, args.w.data, {p.box_rows, kSlabs, true}));
  TANDEM_ASSIGN(const CUtensorMap x_map, tensor_map(device.encode, args.x, {rows, kSlabs, true}));
  LaunchShape shape;
  shape.grid = static_cast<unsigned>(blocks);
  shape.block = kThreads;
  shape.shared_bytes = static_cast<std::size_t>(kFixedBytes + p.stages * stage_bytes(rows));
  shape.overlap = true;
  return dispatch_rows(args.x.dtype, rows, [&](auto* kernel) {
    return launch_kernel("decode GEMM", shape, stream, kernel, w_map, x_map, p);
  });
}

}  // namespace tandem::cuda
