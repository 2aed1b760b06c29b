// The placement of an adapter's matrices in its run of bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/loader/adapter.h"

namespace tandem {

inline constexpr std::size_t kAdapterAlignment = 64;

// Places module `module` of `layer`, which has it, after all modules placed before. Call it by
// layer and then in the order of the model's ModuleTable. Grows num_bytes, max_rank, site_ranks and
// modules; the bytes are allocated after the last call. `rank` of a whole matrix is its width, that
// of rows by token their number, that of a vector 1; all count as 1 in max_rank.
AdapterMatrix& append_matrix(Adapter& adapter, const ModelSpec& spec, std::int64_t layer,
                             std::size_t module, std::int64_t rank, bool has_bias = false);

// Allocates num_bytes uninitialised bytes, from the heap if `allocate` is null.
Status allocate_bytes(Adapter& adapter, const AllocateBytes& allocate = nullptr);

// The hash that digests are: of a text, 32 hex digits.
Result<std::string> digest_of(std::string_view text);

// Computes the digest of an adapter from its layout and from pieces of its bytes, which any threads
// may add in any order. The hash is cryptographic because cached results are looked up by it:
// nobody must be able to forge an adapter with the digest of another. It is a hash of hashes, so
// that threads can share the work.
class AdapterDigest {
 public:
  static constexpr std::size_t kPieceBytes = 1 << 20;

  explicit AdapterDigest(const Adapter& layout);
  std::size_t num_pieces() const { return num_pieces_; }
  // Hashes piece `index` of the run that starts at `bytes`. A piece has kPieceBytes, the last one
  // fewer. Call it once per piece; thread-safe.
  void add(std::size_t index, const std::byte* bytes);
  // Returns the digest after all pieces have been added.
  Result<std::string> finish() const;

 private:
  std::string text_;      // hashed by finish(): the layout, then the hashes of the pieces
  std::size_t head_ = 0;  // length of the layout
  std::size_t num_bytes_;
  std::size_t num_pieces_;
  std::atomic<bool> good_{true};
};

// Sets the digest from the layout and the bytes, which must all be written.
Status set_digest(Adapter& adapter);

}  // namespace tandem
