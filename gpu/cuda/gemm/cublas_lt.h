// The part of cuBLASLt that is used, loaded when a GPU is first used. Linking it would cost every
// process of the program, including each CPU worker and `tandem --help`, 95 MB of private memory
// and a tenth of a second (version 13.1), because much of its data holds addresses that must be
// relocated at load time.
#pragma once

#include <cublasLt.h>

#include <string_view>

#include "base/status.h"

namespace tandem::cuda {

// The library's functions, named without `cublasLt`. Stays loaded until the process ends.
// Thread-safe, except that two threads may not use one handle at the same time.
struct CublasLt {
  static const char* file();  // "libcublasLt.so.13": the major version of the headers

  // Loads file() at the first call. unavailable, with the remedy: it is missing or another version.
  static Result<const CublasLt*> get();
  static Result<CublasLt> load(const char* file);  // used by get(), and by tests

  // `code` as Status: resource_exhausted or internal, naming `what` and cuBLASLt's own text.
  Status status(cublasStatus_t code, std::string_view what) const;

  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtDestroy) destroy = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) set_description = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&::cublasLtGetStatusName) status_name = nullptr;
  // Each takes the size of the struct that it initialises, as the header's wrappers do.
  decltype(&::cublasLtMatmulDescInit_internal) init_description = nullptr;
  decltype(&::cublasLtMatmulPreferenceInit_internal) init_preference = nullptr;
  decltype(&::cublasLtMatrixLayoutInit_internal) init_layout = nullptr;
};

}  // namespace tandem::cuda
