#include "gpu/cuda/gemm/lt_gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "gpu/cuda/gemm/add_terms.h"

namespace tandem::cuda {
namespace {

// The size that NVIDIA recommends for Hopper; smaller GPUs need less.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr std::size_t kProductBytes = std::size_t{16} << 20;

cudaDataType_t data_type(DType dtype) {
  if (dtype == DType::f32) return CUDA_R_32F;
  return dtype == DType::f16 ? CUDA_R_16F : CUDA_R_16BF;
}

// From 33 rows on, ranges of row counts share an algorithm: multiples of 16 up to 64, multiples of
// 64 up to 512, then multiples of a quarter of a power of two.
std::int64_t bucket_of(std::int64_t rows) {
  if (rows <= 32) return rows;
  if (rows <= 64) return (rows + 15) / 16 * 16;
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows)));
  const std::int64_t step = std::max<std::int64_t>(64, power / 4);
  return (rows + step - 1) / step * step;
}

// The largest power of two up to 16 that divides both the address and the row stride in bytes.
std::uint8_t alignment_of(const TensorView& view) {
  const auto bits = std::bit_cast<std::uintptr_t>(view.data) |
                    static_cast<std::uintptr_t>(view.stride[0]) * size_of(view.dtype) | 16U;
  return static_cast<std::uint8_t>(bits & (~bits + 1));
}

// The number of rows that fit into the scratch product.
std::int64_t product_rows(std::int64_t out) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kProductBytes / sizeof(float)) / out);
}

std::int64_t row_distance(const TensorView& view) {
  return view.rows() > 1 ? view.stride[0] : view.cols();
}

// cuBLASLt is column-major, so it computes y^T [out, T] = w^T^T [out, in] x^T [in, T].
struct Operation {
  cublasLtMatmulDescOpaque_t description{};
  cublasLtMatrixLayoutOpaque_t w{}, x{}, y{};

  Status set(const CublasLt& lt, const GemmArgs& args, std::int64_t rows) {
    TANDEM_TRY(lt.status(
        lt.init_description(&description, sizeof description, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "describing a product"));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    TANDEM_TRY(lt.status(lt.set_description(&description, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                            sizeof transposed),
                         "describing a product"));
    TANDEM_TRY(layout(lt, w, args.w.data, args.w.rows()));
    TANDEM_TRY(layout(lt, x, args.x, rows));
    return layout(lt, y, args.y, rows);
  }

 private:
  static Status layout(const CublasLt& lt, cublasLtMatrixLayoutOpaque_t& made,
                       const TensorView& view, std::int64_t rows) {
    return lt.status(lt.init_layout(&made, sizeof made, data_type(view.dtype),
                                    static_cast<std::uint64_t>(view.cols()),
                                    static_cast<std::uint64_t>(rows), row_distance(view)),
                     "describing a matrix");
  }
};

}  // namespace

Result<std::unique_ptr<LtGemm>> LtGemm::create() {
  TANDEM_ASSIGN(const CublasLt* const lt, CublasLt::get());
  std::unique_ptr<LtGemm> made(new LtGemm(*lt));
  TANDEM_TRY(lt->status(lt->create(&made->handle_), "creating a handle"));
  TANDEM_ASSIGN(made->workspace_,
                allocate_device_memory(kWorkspaceBytes, "allocating the GEMM workspace"));
  TANDEM_ASSIGN(made->product_,
                allocate_device_memory(kProductBytes, "allocating the GEMM workspace"));
  return made;
}

LtGemm::~LtGemm() {
  if (handle_ != nullptr) lt_.destroy(handle_);
}

std::size_t LtGemm::ShapeHash::operator()(const Shape& shape) const {
  std::uint64_t hash = 0;
  for (const std::int64_t part :
       {shape.rows, shape.in, shape.out, static_cast<std::int64_t>(shape.x),
        static_cast<std::int64_t>(shape.y), static_cast<std::int64_t>(shape.accumulate),
        static_cast<std::int64_t>(shape.align_x), static_cast<std::int64_t>(shape.align_w),
        static_cast<std::int64_t>(shape.align_y)}) {
    hash = (std::rotl(hash, 23) ^ static_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15U;
  }
  return hash;
}

LtGemm::Shape LtGemm::shape_of(const GemmArgs& args) {
  return {bucket_of(args.x.rows()),
          args.x.cols(),
          args.w.rows(),
          args.x.dtype,
          args.y.dtype,
          args.accumulate,
          alignment_of(args.x),
          alignment_of(args.w.data),
          alignment_of(args.y)};
}

Result<std::vector<cublasLtMatmulAlgo_t>> LtGemm::list_algorithms(const GemmArgs& args,
                                                                  const Shape& shape, int most) {
  Operation typical;
  TANDEM_TRY(typical.set(lt_, args, shape.rows));
  cublasLtMatmulPreferenceOpaque_t preference{};
  TANDEM_TRY(
      lt_.status(lt_.init_preference(&preference, sizeof preference), "stating a preference"));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return lt_.status(lt_.set_preference(&preference, attribute, &value, sizeof value),
                      "stating a preference");
  };
  TANDEM_TRY(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes));
  // Splits of the inner dimension may only be summed in f32: in y's own dtype they would be rounded
  // twice.
  TANDEM_TRY(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}));
  TANDEM_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{shape.align_w}));
  TANDEM_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t{shape.align_x}));
  TANDEM_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::uint32_t{shape.align_y}));
  TANDEM_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::uint32_t{shape.align_y}));
  std::vector<cublasLtMatmulHeuristicResult_t> named(static_cast<std::size_t>(most));
  int found = 0;
  TANDEM_TRY(
      lt_.status(lt_.get_heuristic(handle_, &typical.description, &typical.w, &typical.x,
                                   &typical.y, &typical.y, &preference, most, named.data(), &found),
                 "choosing an algorithm"));
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = named[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  if (algorithms.empty()) {
    return error(StatusCode::internal, "cuBLASLt: no algorithm for {} rows, in {}, out {}",
                 shape.rows, shape.in, shape.out);
  }
  return algorithms;
}

Status LtGemm::run(const GemmArgs& args, cudaStream_t stream) {
  const bool biased = args.bias.rank > 0;
  if (args.y.dtype == DType::f32) {
    if (!biased) return multiply(args, stream);
    // The epilogue only supports a bias of y's dtype.
    TANDEM_TRY(launch_add_terms({}, args.bias, args.y, args.accumulate, stream));
    return multiply({args.x, args.w, {}, args.y, true}, stream);
  }
  if (!biased && !args.accumulate) return multiply(args, stream);
  // For small or odd shapes the library rounds the product to y's dtype before adding it.
  const std::int64_t rows_at_once = product_rows(args.w.rows());
  for (std::int64_t first = 0; first < args.x.rows(); first += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, args.x.rows() - first);
    const TensorView product(product_.get(), DType::f32, {rows, args.w.rows()});
    TANDEM_TRY(multiply({args.x.slice_rows(first, rows), args.w, {}, product}, stream));
    TANDEM_TRY(launch_add_terms(product, args.bias, args.y.slice_rows(first, rows), args.accumulate,
                                stream));
  }
  return {};
}

Status LtGemm::multiply(const GemmArgs& args, cudaStream_t stream) {
  const Shape shape = shape_of(args);
  auto known = chosen_.find(shape);
  if (known == chosen_.end()) {
    TANDEM_ASSIGN(const auto algorithms, list_algorithms(args, shape, 1));
    known = chosen_.emplace(shape, algorithms.front()).first;
  }
  return multiply(args, known->second, stream);
}

Status LtGemm::multiply(const GemmArgs& args, const cublasLtMatmulAlgo_t& algorithm,
                        cudaStream_t stream) {
  Operation operation;
  TANDEM_TRY(operation.set(lt_, args, args.x.rows()));
  const float alpha = 1;
  const float beta = args.accumulate ? 1.0F : 0.0F;
  return lt_.status(
      lt_.matmul(handle_, &operation.description, &alpha, args.w.data.data, &operation.w,
                 args.x.data, &operation.x, &beta, args.y.data, &operation.y, args.y.data,
                 &operation.y, &algorithm, workspace_.get(), kWorkspaceBytes, stream),
      "a product");
}

GemmArgs LtGemm::plain(const GemmArgs& args) const {
  const bool biased = args.bias.rank > 0;
  GemmArgs product{args.x, args.w, {}, args.y, args.accumulate};
  if (args.y.dtype == DType::f32) {
    product.accumulate = args.accumulate || biased;
  } else if (biased || args.accumulate) {
    const std::int64_t rows = std::min(args.x.rows(), product_rows(args.w.rows()));
    product.x = args.x.slice_rows(0, rows);
    product.y = TensorView(product_.get(), DType::f32, {rows, args.w.rows()});
    product.accumulate = false;
  }
  return product;
}

struct LtGemm::Stopwatch {
  Stopwatch() = default;
  ~Stopwatch() {
    if (begin != nullptr) (void)cudaEventDestroy(begin);
    if (end != nullptr) (void)cudaEventDestroy(end);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  std::size_t turn = 0;  // index of the next product
};

Status LtGemm::tune(std::span<const GemmArgs> like, std::int64_t fewest, cudaStream_t stream) {
  Stopwatch watch;
  TANDEM_TRY(cuda_status(cudaEventCreate(&watch.begin), "cudaEventCreate"));
  TANDEM_TRY(cuda_status(cudaEventCreate(&watch.end), "cudaEventCreate"));
  const std::int64_t most = std::min(like.front().x.rows(), kMostTunedRows);
  for (std::int64_t rows = fewest; rows <= most; rows = bucket_of(rows) + 1) {
    std::vector<GemmArgs> products;
    for (GemmArgs args : like) {
      args.x = args.x.slice_rows(0, std::min(bucket_of(rows), most));
      args.y = args.y.slice_rows(0, args.x.rows());
      products.push_back(plain(args));
    }
    const Shape shape = shape_of(products.front());
    if (chosen_.find(shape) != chosen_.end()) continue;
    TANDEM_ASSIGN(const cublasLtMatmulAlgo_t fastest, find_fastest(products, shape, watch, stream));
    chosen_.emplace(shape, fastest);
  }
  // Larger row counts use the heuristics' choice. Each is computed once here to load its kernel:
  // loading may take milliseconds and, with ranks whose kernels wait for each other, never end.
  const std::int64_t all = like.front().x.rows();
  for (std::int64_t rows = std::max(most + 1, fewest); rows <= all; rows = bucket_of(rows) + 1) {
    GemmArgs args = like.front();
    args.x = args.x.slice_rows(0, std::min(bucket_of(rows), all));
    args.y = args.y.slice_rows(0, args.x.rows());
    TANDEM_TRY(run(args, stream));
  }
  return cuda_status(cudaStreamSynchronize(stream), "products of many rows");
}

Result<float> LtGemm::measure(std::span<const GemmArgs> products,
                              const cublasLtMatmulAlgo_t& algorithm, int calls, Stopwatch& watch,
                              cudaStream_t stream) {
  const auto next = [&] {
    return multiply(products[watch.turn++ % products.size()], algorithm, stream);
  };
  TANDEM_TRY(next());  // not measured, because it may load the kernel
  TANDEM_TRY(cuda_status(cudaEventRecord(watch.begin, stream), "cudaEventRecord"));
  for (int call = 0; call < calls; ++call) TANDEM_TRY(next());
  TANDEM_TRY(cuda_status(cudaEventRecord(watch.end, stream), "cudaEventRecord"));
  TANDEM_TRY(cuda_status(cudaEventSynchronize(watch.end), "measuring a product"));
  float ms = 0;
  TANDEM_TRY(cuda_status(cudaEventElapsedTime(&ms, watch.begin, watch.end), "measuring"));
  return ms * 1e3F / static_cast<float>(calls);
}

Result<cublasLtMatmulAlgo_t> LtGemm::find_fastest(std::span<const GemmArgs> products,
                                                  const Shape& shape, Stopwatch& watch,
                                                  cudaStream_t stream) {
  constexpr int kMostAlgorithms = 16;
  constexpr int kCalls = 4;
  constexpr float kNearlyAsFast = 1.1F;  // close enough for a second measurement
  constexpr float kAsFast = 1.02F;       // equally fast: the library's order decides
  TANDEM_ASSIGN(const auto algorithms, list_algorithms(products.front(), shape, kMostAlgorithms));
  std::vector<float> us;
  Status failure;
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
    const Result<float> measured = measure(products, algorithm, kCalls, watch, stream);
    if (!measured) failure = measured.status();
    us.push_back(measured ? *measured : std::numeric_limits<float>::infinity());
  }
  const float first_best = *std::min_element(us.begin(), us.end());
  if (std::isinf(first_best)) return failure;
  const float near = first_best * kNearlyAsFast;
  for (std::size_t i = 0; i < us.size(); ++i) {
    if (us[i] > near) continue;
    TANDEM_ASSIGN(const float again, measure(products, algorithms[i], 2 * kCalls, watch, stream));
    us[i] = again;
  }
  const float fast = *std::min_element(us.begin(), us.end()) * kAsFast;
  const auto found = std::find_if(us.begin(), us.end(), [&](float t) { return t <= fast; });
  return algorithms[static_cast<std::size_t>(found - us.begin())];
}

}  // namespace tandem::cuda
