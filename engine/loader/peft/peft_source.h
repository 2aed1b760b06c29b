// The state of a PEFT adapter's folder at the time it was read: its files, and the destination of
// their bytes. With it the adapter is read again without parsing its config and header and, if the
// files are unchanged, without verifying the digest once more.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/file/file_identity.h"
#include "base/ids/token_id.h"
#include "engine/loader/adapter.h"
#include "engine/model/spec/spread.h"

namespace tandem {

// The files of a PEFT folder that make the adapter.
inline constexpr const char* kPeftConfigName = "adapter_config.json";
inline constexpr const char* kPeftWeightsName = "adapter_model.safetensors";
inline constexpr std::uint64_t kMaxPeftConfigBytes = 1 << 20;
// Files that it may have beside them: the tokenizer and the chat template of the adapter's
// requests.
inline constexpr const char* kTokenizerName = "tokenizer.json";
inline constexpr std::array kFilesBeside = {kTokenizerName, "tokenizer_config.json",
                                            "special_tokens_map.json", "chat_template.jinja"};
inline constexpr std::uint64_t kMaxBesideBytes = 64 << 20;  // of each

// A row of an adapter's own for a token.
struct TokenRow {
  TokenId token = 0;
  DType type = DType::f32;  // in the file: [hidden size], from byte `begin` on
  std::uint64_t begin = 0;
};

// One module of one layer: a part of the run of bytes that is read and converted independently.
struct PeftJob {
  std::int32_t layer = 0;
  std::uint16_t module = 0;   // row of the base's ModuleTable
  DType a_type = DType::f32;  // in the file: A [rank, in] and B [out, rank], dense
  DType b_type = DType::f32;
  DType bias_type = DType::f32;  // [out], if matrix.has_bias
  float scale = 1;
  float added = 0;  // to each element of a vector
  ModuleSide in;    // of a whole matrix: the columns of B; of a vector: none
  ModuleSide out;
  std::int64_t spread_in = 0;  // columns in the run; 0: there is no A
  std::int64_t spread_out = 0;
  std::uint64_t a_begin = 0;  // byte range of the file
  std::uint64_t b_begin = 0;
  std::uint64_t bias_begin = 0;
  std::vector<TokenRow> tokens;  // of rows by token, in place of A and B: by ascending token
  std::uint64_t end = 0;         // byte range of the run, padding included
  AdapterMatrix matrix;

  bool is_vector() const { return spread_in == 0 && in.stored == 0; }
};

struct PeftSource {
  FileIdentity config;        // adapter_config.json
  FileIdentity weights;       // adapter_model.safetensors
  std::vector<PeftJob> jobs;  // by layer, then module, as in the run of bytes, which they fill
};

}  // namespace tandem
