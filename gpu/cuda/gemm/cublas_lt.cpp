#include "gpu/cuda/gemm/cublas_lt.h"

#include <dlfcn.h>

#include <type_traits>

#include "base/status_copy.h"

#define TANDEM_TEXT_OF(macro) #macro
#define TANDEM_LT_FILE(major) "libcublasLt.so." TANDEM_TEXT_OF(major)

namespace tandem::cuda {
namespace {

Status missing(const char* file, const char* why) {
  return error(StatusCode::unavailable,
               "cuBLASLt cannot be used: {} ({}); install libcublas of NVIDIA's repository, or "
               "nvidia-cublas from PyPI and name the folder of its {} in LD_LIBRARY_PATH",
               why == nullptr ? "it lacks a function" : why, file, CublasLt::file());
}

}  // namespace

const char* CublasLt::file() {
  return TANDEM_LT_FILE(CUBLAS_VER_MAJOR);
}

Result<CublasLt> CublasLt::load(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return missing(file, ::dlerror());
  CublasLt lt;
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  const bool complete = find(lt.create, "cublasLtCreate") && find(lt.destroy, "cublasLtDestroy") &&
                        find(lt.matmul, "cublasLtMatmul") &&
                        find(lt.get_heuristic, "cublasLtMatmulAlgoGetHeuristic") &&
                        find(lt.set_description, "cublasLtMatmulDescSetAttribute") &&
                        find(lt.set_preference, "cublasLtMatmulPreferenceSetAttribute") &&
                        find(lt.status_name, "cublasLtGetStatusName") &&
                        find(lt.init_description, "cublasLtMatmulDescInit_internal") &&
                        find(lt.init_preference, "cublasLtMatmulPreferenceInit_internal") &&
                        find(lt.init_layout, "cublasLtMatrixLayoutInit_internal");
  if (!complete) return missing(file, ::dlerror());
  return lt;
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
