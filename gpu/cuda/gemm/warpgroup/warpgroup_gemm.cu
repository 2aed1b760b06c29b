// y[t, o] = (y[t, o] +) sum_i x[t, i] w[o, i] (+ bias[o]) for T <= 64 rows t. Bound by reading w.
//
// Grid: one block per multiprocessor, alone or in clusters of two. Each cluster has an equal range
// of w's rows (not a fixed number) and each of its blocks an equal part of the inner dimension, so
// that x is read once per cluster instead of once per block. One producer thread orders the copies
// of stages, 64 or 128 columns of w's rows and of x, into a ring in shared memory. Two consumer
// warpgroups process half of w's rows each: x, padded to 64 rows, is the tensor core's row operand,
// w the column one, so that w's rows are padded to multiples of 8 only. The padding is what happens
// to follow in shared memory; its results are never read. The two blocks of a cluster exchange
// sums: every other tile of eight rows of w goes to either block, which adds them in a fixed order.
//
// Sums that are stored unchanged, and those that end in swiglu, are finished in registers. Others
// go through a few stores to shared memory, and a loop that is not unrolled adds bias, y and the
// partner's sums. Unrolled over registers, for both types of y, the loop made kernels of up to 178
// KB (now 44), and a layer's products in sequence, each another kernel, were 8 % slower than each
// of them alone.
//
// A product that ends in swiglu: the first warpgroup has rows of gate, the second the matching rows
// of up, which come in a box of their own; each finishes every second tile of both.
//
// Weights never change, so the ring is filled with them before earlier kernels have ended; x and y
// are read after that.
//
// Variants tried on one H100 (us, 64 rows, llama-2-7b):
//   clusters of 4                                  o 15.0, down 34.9 (two: 14.9, 35.0)
//   eight rows of w, all slabs of a stage together in one box of four dimensions: 1 % at most
//   blocks that start at different columns         1 % at most
//   64 columns per stage if w's rows are few       qkv 36.4 (128: 35.9)
//   two blocks that fetch x for each other (multicast)
//                                                  qkv 49.7 (alone: 37.2), gate and up 92 (66):
//                                                  each waits for the other's ring
//   less shared memory, so that an earlier kernel's blocks fit beside these
//                                                  a step with 192 KB takes as long, with 172 KB
//                                                  longer by 0.5 %
#include <cstdint>

#include "gpu/cuda/base/async_copy.cuh"
#include "gpu/cuda/base/cache_policy.cuh"
#include "gpu/cuda/base/cluster.cuh"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/gemm/warpgroup/warpgroup.cuh"
#include "gpu/cuda/gemm/warpgroup/warpgroup_finish.cuh"
#include "gpu/cuda/gemm/warpgroup/warpgroup_gemm.h"
#include "gpu/cuda/gemm/warpgroup/warpgroup_plan.h"
#include "gpu/cuda/gemm/warpgroup/warpgroup_share.cuh"

namespace tandem::cuda {
namespace {

constexpr int kWarpgroup = 128;
constexpr int kThreads = (kWarpgroupConsumers + 1) * 32;
constexpr unsigned kGroupBytes = 1024;  // eight rows of a slab

// Runs on the one thread that fills the ring.
__device__ void produce(const WarpgroupParams& p, const CUtensorMap* w, const CUtensorMap* x,
                        const WarpgroupShare& share, std::uint32_t full, std::uint32_t empty,
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
      // Acquires the consumers' arrivals of the previous round: the stage has been read. A barrier
      // counts as passed before its first round.
      barrier_wait(empty + 8U * static_cast<unsigned>(stage), (round & 1) ^ 1);
      load_w(group, chunk, stage);
      load_x(chunk, stage);
      if (++stage == plan.stages) stage = 0, ++round;
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
  // Uniform within a warp; otherwise the compiler makes products wait for each other.
  const int warp = __shfl_sync(0xffffffffU, thread / 32, 0);
  const int lane = thread % 32;
  const WarpgroupShare share(p);

  allow_next_kernel();
  if (thread == 0) {
    tensor_prefetch(&w_map);
    tensor_prefetch(&x_map);
#pragma unroll 1
    for (int s = 0; s < plan.stages; ++s) {
      barrier_init(full + 8U * static_cast<unsigned>(s), 1);
      barrier_init(empty + 8U * static_cast<unsigned>(s), kWarpgroupConsumers);
    }
    for (unsigned v = 0; v < 2; ++v) barrier_init(sums_full + 8 * v, 1);
    barrier_init_fence();
    for (int v = 0; v < 2 && plan.cluster > 1; ++v) {
      barrier_expect(sums_full + 8U * static_cast<unsigned>(v),
                     static_cast<unsigned>(share.own_tiles(p, 0, v) * kWarpgroupTileBytes));
    }
  }
  __syncthreads();
  if (plan.cluster > 1) cluster_arrive_relaxed();

  if (warp == kWarpgroupConsumers) {
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
    const int shift = lane % 4 * 2 + share.columns_begin(p, warpgroup);
    const WarpgroupResults results{warp % 4 * 16 + lane / 4,
                                   share.group_begin(p, group) + shift,
                                   share.columns_end(p, group, warpgroup) - shift,
                                   share.rank,
                                   share.own_tiles(p, group, warpgroup),
                                   own,
                                   others,
                                   others_full};
    // In flight while products are computed, so that nothing waits for it afterwards.
    float early[kWarpgroupBatch][4] = {};
    if (p.accumulate && p.y_is_f32) load_y<float>(p, results, 0, early);
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
        warpgroup_commit();  // not after the loop: the compiler would make products wait
      }
      // All but the last slab's products are done: the previous stage has been read.
      warpgroup_wait<1>();
      warpgroup_hold(d);
      if (last >= 0) release(last);
      last = stage;
      if (++stage == plan.stages) stage = 0, ++round;
    }
    warpgroup_wait<0>();
    warpgroup_hold(d);
    if (last >= 0) release(last);

    if (p.as_is) {
      store_sums<Element, kN>(p, results, d);
      continue;
    }
    meet<kWarpgroupConsumers * 32>();  // the sums may overwrite what the other warpgroup reads
    if (p.swiglu) {
      const auto between = static_cast<unsigned>(plan.most_tiles * kWarpgroupTileBytes);
      finish_swiglu<Element, kN>(p, results, d, warpgroup == 0, own,
                                 warpgroup == 0 ? own + between : own - between);
      continue;
    }
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
    if (p.y_is_f32) {
      finish_sums<float, Element>(p, results, early);
    } else {
      finish_sums<Element, Element>(p, results, early);
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
  p.swiglu = end != GemmEnd::store;
  p.gelu = end == GemmEnd::geglu;
  p.plan = plan_warpgroup_gemm(p.rows, static_cast<int>(args.x.cols()), p.out, device, end);
  p.y = args.y.data;
  p.bias = args.bias.rank > 0 ? args.bias.data : nullptr;
  p.y_stride = args.y.stride[0];
  p.y_is_f32 = args.y.dtype == DType::f32;
  p.accumulate = args.accumulate;
  p.pairs = p.plan.unit == 2 && p.y_stride % 2 == 0 &&
            reinterpret_cast<std::uintptr_t>(p.y) % (p.y_is_f32 ? 8 : 4) == 0;
  p.as_is = p.pairs && !p.swiglu && p.plan.cluster == 1 && !p.accumulate && !p.y_is_f32 &&
            p.bias == nullptr;
  TANDEM_CHECK(p.plan.stages >= 2, "{} bytes of shared memory", device.shared_bytes);
  TANDEM_ASSIGN(const CUtensorMap w_map,
                tensor_map(device.encode, args.w.data, {p.plan.group_rows, 1}));
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
