#include "engine/loader/adapter_layout.h"

#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/limits/bytes_text.h"
#include "base/lora_rows.h"
#include "engine/loader/score_head.h"
#include "engine/loader/thread_team.h"

namespace tandem {
namespace {

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

constexpr std::size_t kHashBytes = 32;

bool sha256(const void* data, std::size_t size, void* hash) {
  return EVP_Digest(data, size, static_cast<unsigned char*>(hash), nullptr, EVP_sha256(),
                    nullptr) == 1;
}

Status no_hash() {
  return error(StatusCode::internal, "OpenSSL cannot compute SHA-256");
}

}  // namespace

Result<std::string> digest_of(std::string_view text) {
  std::array<unsigned char, kHashBytes> hash{};
  if (!sha256(text.data(), text.size(), hash.data())) return no_hash();
  std::string digest;
  for (std::size_t i = 0; i < 16; ++i) digest += fmt::format("{:02x}", hash[i]);
  return digest;
}

AdapterMatrix& append_matrix(Adapter& adapter, const ModelSpec& spec, std::int64_t layer,
                             std::size_t module, std::int64_t rank, bool has_bias) {
  const ModuleTable& table = spec.modules;
  const AdaptedModule& row = table[module];
  const std::size_t element = size_of(adapter.dtype);
  const std::span<AdapterMatrix> of_layer = adapter.layers[static_cast<std::size_t>(layer)];
  AdapterMatrix& matrix = of_layer[module];
  const std::int64_t out = module_out(spec, layer, module);
  TANDEM_CHECK(matrix.rank == 0 && out > 0, "layer {} has {} {}", layer, row.path,
               out > 0 ? "twice" : "not");
  matrix.rank = static_cast<std::int32_t>(rank);
  matrix.b_stride = static_cast<std::int32_t>(
      row.by_token ? token_ids_row(rank, adapter.dtype) : lora_row(rank, has_bias, adapter.dtype));
  matrix.has_bias = has_bias;
  adapter.has_bias = adapter.has_bias || has_bias;
  matrix.a_offset = adapter.num_bytes;
  const auto a_bytes = static_cast<std::uint64_t>(rank * module_in(spec, layer, module)) * element;
  matrix.b_offset = align_up(matrix.a_offset + a_bytes, kAdapterAlignment);
  const auto b_bytes = static_cast<std::uint64_t>(matrix.b_stride * out) * element;
  adapter.num_bytes = align_up(matrix.b_offset + b_bytes, kAdapterAlignment);
  adapter.max_rank = std::max(adapter.max_rank, row.is_lora() ? matrix.rank : 1);
  std::int32_t ranks = 0;
  for (std::size_t m = table.first_of(row.site); m < table.end_of(row.site); ++m) {
    ranks += of_layer[m].rank;
  }
  std::int32_t& most = adapter.site_ranks[static_cast<std::size_t>(row.site)];
  most = std::max(most, ranks);
  if (std::ranges::find(adapter.modules, row.name()) == adapter.modules.end()) {
    const auto row_of = [&](const std::string& name) { return table.row(name); };
    adapter.modules.emplace(
        std::ranges::lower_bound(adapter.modules, table.row(row.name()), {}, row_of), row.name());
  }
  return matrix;
}

Status allocate_bytes(Adapter& adapter, const AllocateBytes& allocate) {
  if (allocate) {
    TANDEM_ASSIGN(adapter.bytes, allocate(adapter.num_bytes));
    return {};
  }
  auto* const data =
      static_cast<std::byte*>(std::aligned_alloc(kAdapterAlignment, adapter.num_bytes));
  adapter.bytes = AdapterBytes(data, [](std::byte* bytes) { std::free(bytes); });
  if (data != nullptr) return {};
  return error(StatusCode::resource_exhausted, "no memory for an adapter of {}",
               size_text(adapter.num_bytes));
}

// The modules of the embedding and the head, one at each of their sites, are a layer's last ones
// (ModuleTable). A digest names those that are there, so that adapters without them keep the
// digests that registries hold from releases without these modules.
constexpr std::size_t kOuterModules = kMaxSites - static_cast<std::size_t>(Site::whole_embedding);

AdapterDigest::AdapterDigest(const Adapter& layout)
    : num_bytes_(layout.num_bytes), num_pieces_((num_bytes_ + kPieceBytes - 1) / kPieceBytes) {
  text_ = fmt::format("tandem adapter 1 {} {}\n", to_string(layout.dtype), num_bytes_);
  for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
    const std::span<const AdapterMatrix> row = layout.layers[layer];
    for (std::size_t m = 0; m < row.size(); ++m) {
      const AdapterMatrix& matrix = row[m];
      if (const std::size_t to_end = row.size() - m; to_end <= kOuterModules) {
        if (matrix.rank == 0) continue;
        text_ += fmt::format("outer {}: ", to_end);
      }
      text_ += fmt::format("{} {} {} {},", matrix.rank, matrix.b_stride, matrix.a_offset,
                           matrix.b_offset);
    }
  }
  if (!layout.invocation.empty()) {
    text_ += fmt::format("\ninvoked by {}\n", fmt::join(layout.invocation, " "));
  }
  if (layout.score != nullptr) {
    std::array<unsigned char, kHashBytes> hash{};
    const std::vector<float>& weight = layout.score->weight;
    good_ = sha256(weight.data(), weight.size() * sizeof(float), hash.data());
    text_ +=
        fmt::format("\nscores {} labels by {:02x}\n", layout.score->labels, fmt::join(hash, ""));
  }
  head_ = text_.size();
  text_.resize(head_ + num_pieces_ * kHashBytes);
}

void AdapterDigest::add(std::size_t index, const std::byte* bytes) {
  const std::size_t begin = index * kPieceBytes;
  const std::size_t count = std::min(kPieceBytes, num_bytes_ - begin);
  if (!sha256(bytes + begin, count, text_.data() + head_ + index * kHashBytes)) good_ = false;
}

Result<std::string> AdapterDigest::finish() const {
  if (!good_) return no_hash();
  return digest_of(text_);
}

Status set_digest(Adapter& adapter) {
  AdapterDigest digest(adapter);
  parallel_chunks(digest.num_pieces(), 1,
                  [&](std::size_t begin, std::size_t) { digest.add(begin, adapter.bytes.get()); });
  TANDEM_ASSIGN(adapter.digest, digest.finish());
  return {};
}

}  // namespace tandem
