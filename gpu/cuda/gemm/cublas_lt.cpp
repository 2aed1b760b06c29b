#include "gpu/cuda/gemm/cublas_lt.h"

#include <fmt/format.h>

#include <string>

#include "base/status_copy.h"
#include "gpu/cuda/base/late_library.h"

namespace tandem::cuda {

const char* CublasLt::file() {
  static const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  return name.c_str();
}

Result<CublasLt> CublasLt::load(const char* file) {
  LateLibrary library(file);
  CublasLt lt;
  library.find(lt.create, "cublasLtCreate");
  library.find(lt.destroy, "cublasLtDestroy");
  library.find(lt.matmul, "cublasLtMatmul");
  library.find(lt.get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.find(lt.set_description, "cublasLtMatmulDescSetAttribute");
  library.find(lt.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  library.find(lt.status_name, "cublasLtGetStatusName");
  library.find(lt.init_description, "cublasLtMatmulDescInit_internal");
  library.find(lt.init_preference, "cublasLtMatmulPreferenceInit_internal");
  library.find(lt.init_layout, "cublasLtMatrixLayoutInit_internal");
  if (library.missing().empty()) return lt;
  return error(StatusCode::unavailable,
               "cuBLASLt cannot be used: {} ({}); install libcublas of NVIDIA's repository, or "
               "nvidia-cublas from PyPI and name the folder of its {} in LD_LIBRARY_PATH",
               library.missing(), file, CublasLt::file());
}

Result<const CublasLt*> CublasLt::get() {
  static const Result<CublasLt> found = load(file());
  if (!found) return copy_of(found.status());
  return &*found;
}

Status CublasLt::status(cublasStatus_t code, std::string_view what) const {
  if (code == CUBLAS_STATUS_SUCCESS) return {};
  return error(
      code == CUBLAS_STATUS_ALLOC_FAILED ? StatusCode::resource_exhausted : StatusCode::internal,
      "cuBLASLt: {} failed: {}", what, status_name(code));
}

}  // namespace tandem::cuda
