// y[t, o] = (y[t, o] +) sum_i x[t, i] w[o, i] (+ bias[o]) for T <= 64 rows t. Bound by reading w.
//
// Grid: one block per multiprocessor, alone or in clusters of two. Each cluster has an equal run of
// w's rows (whatever number that is) and each of its blocks an equal part of the inner dimension: x
// is read once per cluster, not once per block. One thread produces: it orders the copies of
// stages, 64 or 128 columns of w's rows and of x, into a ring in shared memory. Two warpgroups
// consume, each half of w's rows: x, padded to 64 rows, is the tensor core's row operand, w the
// column one, so that w's rows are padded to eights only. The padding is whatever follows in shared
// memory: it makes results that nobody reads. The two blocks of a cluster send each other their
// sums, eight of w's rows by turns to each of them, who adds them in one fixed order.
//
// The sums leave the registers by a few stores to shared memory, and a loop that is not unrolled
// adds bias, y and the partner's: unrolled over registers, for both types of y, the loop made
// kernels of up to 178 KB (now 27), and the products of a layer in turn, each another kernel, were
// 8 % slower than each of them alone.
//
// A product that ends in swiglu: the first warpgroup has rows of gate, the second the rows of up
// that belong to them, which come in a box of their own; each finishes every second tile of both.
//
// Weights never change, so the ring is filled with them before the kernels before this one have
// ended; x and y wait.
//
// What was tried, on one H100 (us, 64 rows, llama-2-7b):
//   clusters of 4                                  o 15.0, down 34.9 (two: 14.9, 35.0)
//   eight rows of w, all slabs of a stage together in one box of four dimensions: 1 % at most
//   blocks that start at different columns         1 % at most
//   64 columns to a stage where w's rows are few   qkv 36.4 (128: 35.9)
//   two blocks that fetch x for each other (multicast)
//                                                  qkv 49.7 (alone: 37.2), gate and up 92 (66):
//                                                  each waits for the other's ring
//   less shared memory, so that the kernel before may still be there
//                                                  a step with 192 KB takes as long, with 172 KB
//                                                  longer by half a hundredth
#include <cstdint>

#include "gpu/cuda/base/async_copy.cuh"
#include "gpu/cuda/base/cache_policy.cuh"
#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/silu.cuh"
#include "gpu/cuda/gemm/warpgroup/warpgroup.cuh"
#include "gpu/cuda/gemm/warpgroup/warpgroup_gemm.h"
#include "gpu/cuda/gemm/warpgroup/warpgroup_plan.h"

namespace tandem::cuda {
namespace {

constexpr int kConsumers = 8;  // warps
constexpr int kWarpgroup = 128;
constexpr int kThreads = (kConsumers + 1) * 32;
constexpr unsigned kGroupBytes = 1024;  // eight rows of a slab

struct WarpgroupParams {
  WarpgroupPlan plan;
  void* y;                // [rows, out]
  const void* bias;       // [out] or null
  std::int64_t y_stride;  // elements
  int out, rows;          // columns and rows of y
  bool pairs;             // two results at even columns may be stored as one
  bool y_is_f32;
  bool accumulate;
  bool swiglu;  // w's row `out` + o goes with its row o
};

// What a block computes: rows of w, cut into equal groups, and stages of the inner dimension.
struct Share {
  int rank;
  int begin, count;  // units of rows
  int first_chunk, chunks;
  __device__ explicit Share(const WarpgroupParams& p)
      : rank(static_cast<int>(blockIdx.x) & (p.plan.cluster - 1)) {
    const int cluster = static_cast<int>(blockIdx.x) >> (p.plan.cluster - 1);
    begin = cluster * p.plan.units + min(cluster, p.plan.units_left);
    count = p.plan.units + (cluster < p.plan.units_left ? 1 : 0);
    const int first_half = p.plan.chunks >> (p.plan.cluster - 1);
    first_chunk = rank == 0 ? 0 : first_half;
    chunks = rank == 0 ? first_half : p.plan.chunks - first_half;
  }
  __device__ int group_begin(const WarpgroupParams& p, int group) const {
    return (begin + count * group / p.plan.groups) * p.plan.unit;
  }
  // Of a group, the columns that warpgroup `v` has: [columns_begin(v), columns_end(v)).
  __device__ int columns_begin(const WarpgroupParams& p, int v) const {
    return p.swiglu ? 0 : v * p.plan.half;
  }
  __device__ int columns_end(const WarpgroupParams& p, int group, int v) const {
    const int end = group_begin(p, group + 1) - group_begin(p, group);
    return v == 0 ? min(end, p.plan.half) : end;
  }
  // Tiles of eight columns of a warpgroup, and those of them that this block finishes: tile j if
  // j % cluster is its rank.
  __device__ int tiles(const WarpgroupParams& p, int group, int v) const {
    return max(0, (columns_end(p, group, v) - columns_begin(p, v) + 7) / 8);
  }
  __device__ int own_tiles(const WarpgroupParams& p, int group, int v) const {
    return (tiles(p, group, v) - rank + p.plan.cluster - 1) >> (p.plan.cluster - 1);
  }
};

// The one thread that fills the ring.
__device__ void produce(const WarpgroupParams& p, const CUtensorMap* w, const CUtensorMap* x,
                        const Share& share, std::uint32_t full, std::uint32_t empty,
                        std::uint32_t ring) {
  const WarpgroupPlan& plan = p.plan;
  const std::uint64_t once = evict_first_policy();
  const std::uint64_t again = evict_last_policy();
  const int x_bytes = plan.slabs * plan.x_slab_bytes;
  const int boxes = p.swiglu ? 2 : 1;
  const auto bytes = static_cast<std::uint32_t>(x_bytes + plan.slabs * boxes * plan.group_rows *
                                                              kWarpgroupSlabBytes);
  const auto place = [&](int stage) {
    return ring + static_cast<unsigned>(stage * plan.stage_bytes);
  };
  const auto load_w = [&](int group, int chunk, int stage) {
    const std::uint32_t barrier = full + 8U * static_cast<unsigned>(stage);
    barrier_expect(barrier, bytes);
    const int row = share.group_begin(p, group);
    const int slab = (share.first_chunk + chunk) * plan.slabs;
    for (int s = 0; s < plan.slabs; ++s) {
      const std::uint32_t to =
          place(stage) + static_cast<unsigned>(x_bytes + s * plan.w_slab_bytes);
      tensor_copy(to, w, row, slab + s, barrier, once);
      if (p.swiglu) {
        tensor_copy(to + static_cast<unsigned>(plan.half * kWarpgroupSlabBytes), w, p.out + row,
                    slab + s, barrier, once);
      }
    }
  };
  const auto load_x = [&](int chunk, int stage) {
    tensor_copy(place(stage), x, 0, (share.first_chunk + chunk) * plan.slabs,
                full + 8U * static_cast<unsigned>(stage), again);
  };
  const int ahead = min(share.chunks, plan.stages);
#pragma unroll 1
  for (int i = 0; i < ahead; ++i) load_w(0, i, i);
  wait_for_previous_kernels();
#pragma unroll 1
  for (int i = 0; i < ahead; ++i) load_x(i, i);
  int stage = ahead == plan.stages ? 0 : ahead;
  std::uint32_t round = ahead == plan.stages ? 1 : 0;
  int chunk = ahead;
#pragma unroll 1
  for (int group = 0; group < plan.groups; ++group, chunk = 0) {
#pragma unroll 1
    for (; chunk < share.chunks; ++chunk) {
      // Acquires the consumers' arrivals of the round before: the stage has been read. A barrier
      // counts as passed before its first round.
      barrier_wait(empty + 8U * static_cast<unsigned>(stage), (round & 1) ^ 1);
      load_w(group, chunk, stage);
      load_x(chunk, stage);
      if (++stage == plan.stages) stage = 0, ++round;
    }
  }
}

// A thread's results: rows t and t + 8, columns 8 j + {0, 1} from w's row `o`, for the tiles
// j = n * cluster + rank.
struct Results {
  int t, o;
  int columns;  // how many count
  int rank;
  int tiles;             // n below that
  std::uint32_t own;     // this thread's place in [tiles][128] of 16 bytes, of its own sums
  std::uint32_t others;  // and of the partner's
  std::uint32_t others_full;
};

// Adds sums, bias and what y holds, and stores. Two tiles at a time, whose reads of y are under way
// together: as many as a block of a cluster has of a product of 4096 columns. Four make kernels of
// 30 KB, not 25.
template <typename Y, typename Element>
__device__ __forceinline__ void finish(const WarpgroupParams& p, const Results& results) {
  constexpr int kBatch = 2;
  const int cluster = p.plan.cluster;
  const auto counts = [&](int row, int column) { return row < p.rows && column < results.columns; };
#pragma unroll 1
  for (int first = 0; first < results.tiles; first += kBatch) {
    float v[kBatch][4] = {};
    Y* to[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int column = 8 * ((first + b) * cluster + results.rank);
      to[b] = static_cast<Y*>(p.y) + results.t * p.y_stride + results.o + column;
      if (p.bias != nullptr) {
        const Element* const bias = static_cast<const Element*>(p.bias) + results.o + column;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (column + e < results.columns) v[b][e] = v[b][2 + e] = to_float(bias[e]);
        }
      }
      if (p.accumulate) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (!counts(results.t + i / 2 * 8, column + i % 2)) continue;
          v[b][i] += to_float(to[b][i / 2 * 8 * p.y_stride + i % 2]);
        }
      }
    }
    if (cluster > 1) barrier_wait(results.others_full, 0);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (first + b >= results.tiles) break;
      const int column = 8 * ((first + b) * cluster + results.rank);
      const auto at = static_cast<unsigned>((first + b) * kWarpgroupTileBytes);
      const auto add = [&](std::uint32_t sums) {
        const uint4 sum = load_shared(sums + at);
        v[b][0] += __uint_as_float(sum.x), v[b][1] += __uint_as_float(sum.y);
        v[b][2] += __uint_as_float(sum.z), v[b][3] += __uint_as_float(sum.w);
      };
      add(results.own);
      if (cluster > 1) add(results.others);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        Y* const row = to[b] + h * 8 * p.y_stride;
        const Vec<Y, 2> pair{from_float<Y>(v[b][2 * h]), from_float<Y>(v[b][2 * h + 1])};
        if (!counts(results.t + h * 8, column)) continue;
        if (p.pairs) {  // columns and their end are even
          *reinterpret_cast<Vec<Y, 2>*>(row) = pair;
        } else {
          row[0] = pair.element[0];
          if (column + 1 < results.columns) row[1] = pair.element[1];
        }
      }
    }
  }
}

// The same of a product that ends in swiglu: `gate` and `up` are what finish() calls own, of either
// warpgroup; this one takes every second tile, from `first` on.
template <typename Element>
__device__ __forceinline__ void finish_swiglu(const WarpgroupParams& p, const Results& results,
                                              std::uint32_t gate, std::uint32_t up, int first) {
  const auto halve = [](std::uint32_t sum) {
    return to_float(from_float<Element>(__uint_as_float(sum)));
  };
#pragma unroll 1
  for (int j = first; j < results.tiles; j += 2) {
    const auto at = static_cast<unsigned>(j * kWarpgroupTileBytes);
    const uint4 g = load_shared(gate + at);
    const uint4 u = load_shared(up + at);
    const float v[4] = {silu(halve(g.x)) * halve(u.x), silu(halve(g.y)) * halve(u.y),
                        silu(halve(g.z)) * halve(u.z), silu(halve(g.w)) * halve(u.w)};
    const int column = 8 * j;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int t = results.t + 8 * h;
      if (t >= p.rows || column >= results.columns) continue;
      Element* const to = static_cast<Element*>(p.y) + t * p.y_stride + results.o + column;
      const Vec<Element, 2> pair{from_float<Element>(v[2 * h]), from_float<Element>(v[2 * h + 1])};
      if (p.pairs) {
        *reinterpret_cast<Vec<Element, 2>*>(to) = pair;
      } else {
        to[0] = pair.element[0];
        if (column + 1 < results.columns) to[1] = pair.element[1];
      }
    }
  }
}

// A warpgroup's product has kN columns.
template <typename Element, int kN>
__global__ void __launch_bounds__(kThreads, 1)
    warpgroup_gemm(const __grid_constant__ CUtensorMap w_map,
                   const __grid_constant__ CUtensorMap x_map,
                   const __grid_constant__ WarpgroupParams p) {
  extern __shared__ std::byte unaligned[];
  const std::uint32_t shared = (shared_address(unaligned) + kWarpgroupAlignment - 1) /
                               kWarpgroupAlignment * kWarpgroupAlignment;
  const std::uint32_t full = shared;
  const std::uint32_t empty = full + 8 * kWarpgroupMaxStages;
  const std::uint32_t sums_full = empty + 8 * kWarpgroupMaxStages;
  const std::uint32_t ring = full + kWarpgroupBarrierBytes;
  const WarpgroupPlan& plan = p.plan;

  const int thread = static_cast<int>(threadIdx.x);
  // Known to be the same for a warp; else the compiler has products wait for each other.
  const int warp = __shfl_sync(0xffffffffU, thread / 32, 0);
  const int lane = thread % 32;
  const Share share(p);

  allow_next_kernel();
  if (thread == 0) {
    tensor_prefetch(&w_map);
    tensor_prefetch(&x_map);
#pragma unroll 1
    for (int s = 0; s < plan.stages; ++s) {
      barrier_init(full + 8U * static_cast<unsigned>(s), 1);
      barrier_init(empty + 8U * static_cast<unsigned>(s), kConsumers);
    }
    for (unsigned v = 0; v < 2; ++v) barrier_init(sums_full + 8 * v, 1);
    barrier_init_fence();
    for (int v = 0; v < 2 && plan.cluster > 1; ++v) {
      barrier_expect(sums_full + 8U * static_cast<unsigned>(v),
                     static_cast<unsigned>(share.own_tiles(p, 0, v) * kWarpgroupTileBytes));
    }
  }
  __syncthreads();
  if (plan.cluster > 1) cluster_arrive();

  if (warp == kConsumers) {
    if (lane == 0) produce(p, &w_map, &x_map, share, full, empty, ring);
    __syncwarp();
    if (plan.cluster > 1) cluster_wait();
    return;
  }

  wait_for_previous_kernels();
  const int warpgroup = warp / 4;
  const auto w_in_stage = static_cast<unsigned>(plan.slabs * plan.x_slab_bytes +
                                                warpgroup * plan.half * kWarpgroupSlabBytes);
  const auto sums = static_cast<unsigned>(warpgroup * plan.most_tiles * kWarpgroupTileBytes +
                                          thread % kWarpgroup * 16);
  const std::uint32_t own = ring + static_cast<unsigned>(plan.own_sums) + sums;
  const std::uint32_t others = ring + static_cast<unsigned>(plan.ring_bytes) + sums;
  const std::uint32_t others_full = sums_full + 8U * static_cast<unsigned>(warpgroup);
  int stage = 0;
  std::uint32_t round = 0;
#pragma unroll 1
  for (int group = 0; group < plan.groups; ++group) {
    float d[kN / 2] = {};
    int last = -1;
    const auto release = [&](int read) {
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + 8U * static_cast<unsigned>(read));
    };
#pragma unroll 1
    for (int chunk = 0; chunk < share.chunks; ++chunk) {
      const std::uint32_t base = ring + static_cast<unsigned>(stage * plan.stage_bytes);
      barrier_wait(full + 8U * static_cast<unsigned>(stage), round & 1);
      std::uint64_t x = operand(base, kGroupBytes);
      std::uint64_t w = operand(base + w_in_stage, kGroupBytes);
#pragma unroll 1
      for (int s = 0; s < plan.slabs; ++s) {
        warpgroup_hold(d);
        warpgroup_begin();
#pragma unroll
        for (unsigned k = 0; k < kWarpgroupSlab / 16; ++k) {
          warpgroup_mma<Element>(d, x + k * kOperandColumns16, w + k * kOperandColumns16);
        }
        x += static_cast<unsigned>(plan.x_slab_bytes / 16);
        w += static_cast<unsigned>(plan.w_slab_bytes / 16);
        warpgroup_commit();  // here, not after the loop: else the compiler has products wait
      }
      // All but the last slab's are done: the stage before this one has been read.
      warpgroup_wait<1>();
      warpgroup_hold(d);
      if (last >= 0) release(last);
      last = stage;
      if (++stage == plan.stages) stage = 0, ++round;
    }
    warpgroup_wait<0>();
    warpgroup_hold(d);
    if (last >= 0) release(last);

    meet<kConsumers * 32>();  // the sums may lie where the other warpgroup has read
    const int tiles = share.tiles(p, group, warpgroup);
    std::uint32_t there = 0;
    std::uint32_t counted = 0;
    if (plan.cluster > 1) {
      cluster_wait();
      there = cluster_address(others, share.rank ^ 1);
      counted = cluster_address(others_full, share.rank ^ 1);
    }
    const int other_blocks = plan.cluster - 1;  // 0 or 1
#pragma unroll
    for (int j = 0; j < kN / 8; ++j) {
      if (j >= tiles) break;
      const auto at = static_cast<unsigned>(j >> other_blocks) * kWarpgroupTileBytes;
      const float* const v = &d[4 * j];
      if ((j & other_blocks) == share.rank) {
        store_shared(own + at, v[0], v[1], v[2], v[3]);
      } else {
        cluster_send(there + at, counted, v[0], v[1], v[2], v[3]);
      }
    }
    const int shift = lane % 4 * 2 + share.columns_begin(p, warpgroup);
    const Results results{warp % 4 * 16 + lane / 4,
                          share.group_begin(p, group) + shift,
                          share.columns_end(p, group, warpgroup) - shift,
                          share.rank,
                          share.own_tiles(p, group, warpgroup),
                          own,
                          others,
                          others_full};
    if (p.swiglu) {
      meet<kConsumers * 32>();
      const auto other = static_cast<unsigned>(plan.most_tiles * kWarpgroupTileBytes);
      finish_swiglu<Element>(p, results, warpgroup == 0 ? own : own - other,
                             warpgroup == 0 ? own + other : own, warpgroup);
    } else if (p.y_is_f32) {
      finish<float, Element>(p, results);
    } else {
      finish<Element, Element>(p, results);
    }
  }
}

template <typename Body>
Status dispatch(DType dtype, int columns, Body&& body) {
  const auto by_columns = [&]<typename Element>() {
    switch (columns) {
      case 32:
        return body(warpgroup_gemm<Element, 32>);
      case 48:
        return body(warpgroup_gemm<Element, 48>);
      case 96:
        return body(warpgroup_gemm<Element, 96>);
      default:
        return body(warpgroup_gemm<Element, 128>);
    }
  };
  return dtype == DType::f16 ? by_columns.template operator()<__half>()
                             : by_columns.template operator()<__nv_bfloat16>();
}

}  // namespace

Result<WarpgroupDevice> prepare_warpgroup_gemm() {
  WarpgroupDevice made;
  int device = 0;
  int major = 0;
  int minor = 0;
  TANDEM_TRY(cuda_status(cudaGetDevice(&device), "finding the GPU"));
  const auto get = [&](int& value, cudaDeviceAttr attribute) {
    return cuda_status(cudaDeviceGetAttribute(&value, attribute, device), "asking the GPU");
  };
  TANDEM_TRY(get(major, cudaDevAttrComputeCapabilityMajor));
  TANDEM_TRY(get(minor, cudaDevAttrComputeCapabilityMinor));
  TANDEM_TRY(get(made.processors, cudaDevAttrMultiProcessorCount));
  TANDEM_TRY(get(made.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin));
  if (major != 9 || minor != 0) return made;
  TANDEM_ASSIGN(made.encode, find_tensor_map_encoder());
  if (made.encode == nullptr) return made;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const int columns : kWarpgroupColumns) {
      TANDEM_TRY(dispatch(dtype, columns, [&](auto* kernel) {
        return use_all_shared_memory(reinterpret_cast<const void*>(kernel), made.shared_bytes);
      }));
    }
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 2;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(made.processors / 2 * 2);
  config.blockDim = kThreads;
  config.dynamicSmemBytes = static_cast<std::size_t>(made.shared_bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  TANDEM_TRY(cuda_status(cudaOccupancyMaxActiveClusters(
                             &made.clusters_of_2, warpgroup_gemm<__nv_bfloat16, 128>, &config),
                         "asking the GPU for clusters"));
  made.supported = true;
  return made;
}

Status launch_warpgroup_gemm(const GemmArgs& args, const WarpgroupDevice& device,
                             cudaStream_t stream, GemmEnd end) {
  WarpgroupParams p{};
  p.rows = static_cast<int>(args.x.rows());
  p.out = static_cast<int>(args.y.cols());
  p.swiglu = end == GemmEnd::swiglu;
  p.plan = plan_warpgroup_gemm(p.rows, static_cast<int>(args.x.cols()), p.out, device, end);
  p.y = args.y.data;
  p.bias = args.bias.rank > 0 ? args.bias.data : nullptr;
  p.y_stride = args.y.stride[0];
  p.y_is_f32 = args.y.dtype == DType::f32;
  p.accumulate = args.accumulate;
  p.pairs = p.plan.unit == 2 && p.y_stride % 2 == 0 &&
            reinterpret_cast<std::uintptr_t>(p.y) % (p.y_is_f32 ? 8 : 4) == 0;
  TANDEM_CHECK(p.plan.stages >= 2, "{} bytes of shared memory", device.shared_bytes);
  TANDEM_ASSIGN(const CUtensorMap w_map, tensor_map(device.encode, args.w, {p.plan.group_rows, 1}));
  TANDEM_ASSIGN(const CUtensorMap x_map,
                tensor_map(device.encode, args.x, {p.plan.x_rows, p.plan.slabs}));
  LaunchShape shape;
  shape.grid = static_cast<unsigned>(p.plan.clusters * p.plan.cluster);
  shape.block = kThreads;
  shape.shared_bytes = static_cast<std::size_t>(p.plan.shared_bytes);
  shape.overlap = true;
  shape.cluster = static_cast<unsigned>(p.plan.cluster);
  return dispatch(args.x.dtype, p.plan.columns, [&](auto* kernel) {
    return launch_kernel("decode GEMM", shape, stream, kernel, w_map, x_map, p);
  });
}

}  // namespace tandem::cuda
