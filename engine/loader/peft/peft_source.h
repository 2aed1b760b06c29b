// What a PEFT adapter's folder was when it was read: which files, and which of their bytes go
// where. With it the adapter is read again without reading about it, and, where the files are still
// the same, without proving its contents by their digest once more.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/file_identity.h"
#include "engine/loader/adapter.h"

namespace tandem {

// The files of a PEFT folder; nothing else of it is read.
inline constexpr const char* kPeftConfigName = "adapter_config.json";
inline constexpr const char* kPeftWeightsName = "adapter_model.safetensors";
inline constexpr std::uint64_t kMaxPeftConfigBytes = 1 << 20;

// One module of one layer: a part of the run of its own, read and converted independently.
struct PeftJob {
  std::int32_t layer = 0;
  Module module = Module::q;
  DType a_type = DType::f32;  // in the file: A [rank, in] and B [out, rank], dense
  DType b_type = DType::f32;
  float scale = 1;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::uint64_t a_begin = 0;  // bytes of the file
  std::uint64_t b_begin = 0;
  std::uint64_t end = 0;  // of its bytes in the run, padding included
  AdapterMatrix matrix;
};

struct PeftSource {
  FileIdentity config;        // adapter_config.json
  FileIdentity weights;       // adapter_model.safetensors
  std::vector<PeftJob> jobs;  // in the order of the bytes: by layer, then module; they fill the run
};

}  // namespace tandem
