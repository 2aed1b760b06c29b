// The part of cuBLASLt that is called, found when a GPU is taken. Linked, it would cost every
// process of the program, each CPU worker and `tandem --help` among them, 95 MB of memory of its
// own and a tenth of a second (13.1): so much of its data holds addresses, which are set as it is
// loaded.
#pragma once

#include <cublasLt.h>

#include <string_view>

#include "base/status.h"

namespace tandem::cuda {

// The library's functions by their names without `cublasLt`. Stays loaded to the process's end.
// Thread-safe, as far as no two threads use one handle.
struct CublasLt {
  static const char* file();  // "libcublasLt.so.13": that of the headers it is compiled with

  // Loads file() at the first call. unavailable, with the remedy: it is not there, or another's.
  static Result<const CublasLt*> get();
  static Result<CublasLt> load(const char* file);  // what get() does, for tests

  // `code` as Status: resource_exhausted or internal, saying what failed and what the library says.
  Status status(cublasStatus_t code, std::string_view what) const;

  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtDestroy) destroy = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) set_description = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&::cublasLtGetStatusName) status_name = nullptr;
  // Each with the size of what it writes to (the header's functions of these names give it).
  decltype(&::cublasLtMatmulDescInit_internal) init_description = nullptr;
  decltype(&::cublasLtMatmulPreferenceInit_internal) init_preference = nullptr;
  decltype(&::cublasLtMatrixLayoutInit_internal) init_layout = nullptr;
};

}  // namespace tandem::cuda
