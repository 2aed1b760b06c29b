// Where the matrices of an adapter lie in its run of bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "engine/loader/adapter.h"

namespace tandem {

inline constexpr std::size_t kAdapterAlignment = 64;

// Gives module `module` of `layer` its place behind all those given before: call it by layer and
// then in the order of Module. Grows num_bytes, max_rank, site_ranks and modules; the bytes come
// after the last.
AdapterMatrix& append_matrix(Adapter& adapter, const ModelSpec& config, std::int64_t layer,
                             Module module, std::int64_t rank);

// Allocates num_bytes, not initialised; from the heap without `allocate`.
Status allocate_bytes(Adapter& adapter, const AllocateBytes& allocate = nullptr);

// The digest of an adapter, from its layout and from its bytes piece by piece, in any order and by
// any threads. A cryptographic hash, since cached results are found by it: nobody must be able to
// make an adapter that passes for another's. A hash of hashes, so that threads can share the work.
class AdapterDigest {
 public:
  static constexpr std::size_t kPieceBytes = 1 << 20;

  explicit AdapterDigest(const Adapter& layout);
  std::size_t num_pieces() const { return num_pieces_; }
  // Hashes piece `index` of the run that starts at `bytes`: kPieceBytes of it, the last one less.
  // Once for each piece; thread-safe.
  void add(std::size_t index, const std::byte* bytes);
  // The digest, when all pieces have been added.
  Result<std::string> finish() const;

 private:
  std::string text_;      // what is hashed in the end: the layout, then the hashes of the pieces
  std::size_t head_ = 0;  // length of the former
  std::size_t num_bytes_;
  std::size_t num_pieces_;
  std::atomic<bool> good_{true};
};

// Fills in the digest, from the layout and the bytes, which must all be written.
Status set_digest(Adapter& adapter);

}  // namespace tandem
