// Readers of the formats in which checkpoints pack quantised matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "engine/loader/quantised/module_scheme.h"
#include "engine/loader/quantised/module_tensors.h"
#include "engine/loader/quantised/quantised_matrix.h"

namespace tandem {

// A matrix [out, in] of one module, whose tensors fit together. Immutable; thread-safe. The tensors
// outlive it.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  // The matrix without rows: what all of them share. Vectors of the rows' numbers are empty, but
  // `zeros` and `scale_codes` have an element if rows have them. Reads no codes.
  virtual QuantisedMatrix without_rows() const = 0;
  // Translates rows [first, first + count), which the matrix must have, one at least. Fails if one
  // of their scales is not finite.
  virtual Result<QuantisedMatrix> read(std::int64_t first, std::int64_t count) const = 0;

  // The part of a tensor's bytes that read(first, count) looks at, or all of them. A hint for
  // fetching and dropping pages: it may be a few bytes short at its ends.
  std::span<const std::byte> bytes_of_rows(std::span<const std::byte> tensor, std::int64_t first,
                                           std::int64_t count) const;

 protected:
  PackedMatrix(std::int64_t rows, std::int64_t cols) : rows_(rows), cols_(cols) {}

 private:
  // True if large tensors hold the rows one after another.
  virtual bool is_by_row() const { return true; }

  std::int64_t rows_, cols_;
};

using PackedResult = Result<std::unique_ptr<PackedMatrix>>;

// Opens a module's matrix and checks the types and shapes of its tensors. Messages name the tensor
// without the module.
PackedResult open_packed(const ModuleScheme& scheme, const ModuleTensors& tensors);

// The readers of open_packed(), by Packing.
PackedResult open_words(const ModuleScheme& scheme, const ModuleTensors& tensors);
PackedResult open_gptq(const ModuleScheme& scheme, const ModuleTensors& tensors);
PackedResult open_awq(const ModuleScheme& scheme, const ModuleTensors& tensors);
PackedResult open_int8(const ModuleScheme& scheme, const ModuleTensors& tensors);
PackedResult open_fp8(const ModuleScheme& scheme, const ModuleTensors& tensors);
PackedResult open_bnb_int8(const ModuleScheme& scheme, const ModuleTensors& tensors);
PackedResult open_bnb_4bit(const ModuleScheme& scheme, const ModuleTensors& tensors);
PackedResult open_mxfp4(const ModuleScheme& scheme, const ModuleTensors& tensors);

}  // namespace tandem
