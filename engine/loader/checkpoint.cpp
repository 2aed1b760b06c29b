// A checkpoint on disk as a WeightSource.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file/file.h"
#include "base/log/log.h"
#include "engine/loader/checkpoint_places.h"
#include "engine/loader/foreign_checkpoint.h"
#include "engine/loader/gguf/gguf_file.h"
#include "engine/loader/gguf_checkpoint.h"
#include "engine/loader/json.h"
#include "engine/loader/quantised_modules.h"
#include "engine/loader/safetensors/safetensors.h"
#include "engine/loader/thread_team.h"
#include "engine/loader/weights.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxIndexBytes = 64 << 20;
constexpr std::uint64_t kMaxConfigBytes = 4 << 20;
// Large enough to make the cost of starting a thread negligible, small enough that one part of a
// tensor keeps many threads busy.
constexpr std::size_t kChunkBytes = 2 << 20;

bool is_aligned(const std::byte* data, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0;
}

// Like convert(), but the elements may lie at any address.
void convert_unaligned(DType from, const std::byte* source, DType to, std::byte* target,
                       std::size_t count) {
  if (from == to) {
    std::memcpy(target, source, count * size_of(from));
    return;
  }
  if (is_aligned(source, from)) {
    convert(from, source, to, target, count);
    return;
  }
  constexpr std::size_t kBlock = 4096;
  alignas(16) std::byte block[kBlock * 4];
  for (std::size_t i = 0; i < count; i += kBlock) {
    const std::size_t n = std::min(kBlock, count - i);
    std::memcpy(block, source + i * size_of(from), n * size_of(from));
    convert(from, block, to, target + i * size_of(to), n);
  }
}

class Checkpoint final : public WeightSource {
 public:
  Checkpoint(std::string dir, std::optional<QuantisationScheme> scheme)
      : dir_(std::move(dir)), quantised_(std::move(scheme), places_) {}

  void add_all(SafetensorsFile file) {
    const SafetensorsFile& shard =
        *files_.emplace_back(std::make_unique<SafetensorsFile>(std::move(file)));
    for (const auto& [name, info] : shard.header().tensors())
      places_.insert({name, {&shard, &info}});
  }

  Status add_sharded(const Json& weight_map) {
    std::map<std::string, const SafetensorsFile*, std::less<>> opened;
    for (const auto& [name, file] : weight_map.items()) {
      if (!file.is_string()) return invalid("weight_map: '{}' names no file", name);
      const auto& file_name = file.get_ref<const std::string&>();
      auto it = opened.find(file_name);
      if (it == opened.end()) {
        if (file_name.find('/') != std::string::npos || !file_name.ends_with(".safetensors")) {
          return invalid("weight_map: '{}' is not the name of a .safetensors file in the folder",
                         file_name);
        }
        Result<SafetensorsFile> shard = SafetensorsFile::open(fs::path(dir_) / file_name);
        if (!shard) return shard.status();
        files_.push_back(std::make_unique<SafetensorsFile>(std::move(shard).value()));
        it = opened.emplace(file_name, files_.back().get()).first;
      }
      const TensorInfo* const info = it->second->find(name);
      if (info == nullptr) {
        return invalid("weight_map places tensor '{}' in {}, which does not hold it", name,
                       file_name);
      }
      places_.insert({name, {it->second, info}});
    }
    return {};
  }

  bool has(std::string_view name) const override {
    return places_.find(name) != places_.end() || quantised_.hold(name);
  }

  Status read_part(std::string_view name, std::span<const std::int64_t> shape, DType dtype,
                   std::size_t begin, std::size_t count, void* target) const override {
    if (quantised_.hold(name)) {
      return quantised_.read_part(name, shape, dtype, begin, count, target);
    }
    const auto it = places_.find(name);
    if (it == places_.end()) return missing(name);
    const auto& [file, info] = it->second;
    if (!std::ranges::equal(info->shape, shape)) {
      return invalid("{}: tensor '{}' is {}, config.json asks for [{}]", file->path(), name,
                     to_string(*info), fmt::join(shape, ", "));
    }
    if (!info->dtype || *info->dtype == DType::i32) {
      return invalid("{}: tensor '{}' is {}. {}", file->path(), name, to_string(*info),
                     kTakeUnquantised);
    }
    std::span<const std::byte> bytes = file->bytes(*info);
    const std::size_t size = size_of(*info->dtype);
    bytes = bytes.subspan(std::min(begin, bytes.size() / size) * size);
    bytes = bytes.first(std::min(count, bytes.size() / size) * size);
    copy(*file, bytes, *info->dtype, dtype, static_cast<std::byte*>(target));
    return {};
  }

  std::optional<PackedForm> form_of(std::string_view name,
                                    std::span<const std::int64_t> /*shape*/) const override {
    return quantised_.hold(name) ? quantised_.form_of(name) : std::nullopt;
  }
  Status read_packed(std::string_view name, std::span<const std::int64_t> shape, std::int64_t first,
                     std::int64_t count, const PackedArrays& target) const override {
    return quantised_.read_packed(name, shape, first, count, target);
  }

  Status check_all_used(const std::set<std::string, std::less<>>& used) const override {
    return quantised_.check(used);
  }
  std::uint64_t packed_bytes() const override { return quantised_.bytes(); }

 private:
  // Some quantised checkpoints are not marked in config.json; the names of their tensors show it.
  Status missing(std::string_view name) const {
    constexpr std::string_view kWeight = "weight";
    if (name.ends_with(kWeight)) {
      const std::string_view layer = name.substr(0, name.size() - kWeight.size());
      for (const char* packed : {"qweight", "weight_packed"}) {
        const std::string there = fmt::format("{}{}", layer, packed);
        if (!has(there)) continue;
        return invalid("{} is quantised: it has '{}' instead of '{}'. {}", dir_, there, name,
                       kTakeUnquantised);
      }
    }
    return error(StatusCode::not_found, "{} has no tensor '{}'", dir_, name);
  }

  static void copy(const SafetensorsFile& file, std::span<const std::byte> source, DType from,
                   DType to, std::byte* target) {
    parallel_chunks(source.size(), kChunkBytes, [&](std::size_t begin, std::size_t end) {
      const auto piece = source.subspan(begin, end - begin);
      const std::size_t first = begin / size_of(from);
      file.mapping().fetch(piece);
      convert_unaligned(from, piece.data(), to, target + first * size_of(to),
                        piece.size() / size_of(from));
      // The weights have been copied; keeping the mapping would count them a second time.
      file.mapping().drop(piece);
    });
  }

  std::string dir_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;  // unique_ptr: places_ points into them
  CheckpointPlaces places_;
  QuantisedModules quantised_;  // refers to places_
};

// What DIR/config.json says, if there is one.
Result<std::optional<QuantisationScheme>> read_scheme(const fs::path& dir) {
  const fs::path path = dir / "config.json";
  const Result<std::string> text = read_text_file(path, kMaxConfigBytes);
  if (!text) {
    if (text.status().code() == StatusCode::not_found) return std::optional<QuantisationScheme>();
    return text.status();
  }
  auto scheme = QuantisationScheme::read(*text);
  if (!scheme) return scheme.status().with_context(path.string());
  if (*scheme && (*scheme)->quantises_kv()) {
    log::info("{}: 'kv_cache_scheme' is left out: keys and values stay unquantised", path.string());
  }
  return scheme;
}

}  // namespace

Result<std::unique_ptr<WeightSource>> open_checkpoint(const fs::path& dir) {
  if (is_gguf_file(dir)) return open_gguf(dir);
  std::error_code ignored;  // an inaccessible path counts as missing
  TANDEM_ASSIGN(std::optional<QuantisationScheme> scheme, read_scheme(dir));
  auto checkpoint = std::make_unique<Checkpoint>(dir.string(), std::move(scheme));
  const fs::path single = dir / "model.safetensors";
  if (fs::exists(single, ignored)) {
    TANDEM_ASSIGN(SafetensorsFile file, SafetensorsFile::open(single));
    checkpoint->add_all(std::move(file));
    return std::unique_ptr<WeightSource>(std::move(checkpoint));
  }
  const fs::path index_path = dir / "model.safetensors.index.json";
  if (!fs::exists(index_path, ignored)) {
    if (const std::string foreign = foreign_format(dir); !foreign.empty()) {
      return invalid("{}", foreign);
    }
    return error(StatusCode::not_found, "{} has neither model.safetensors nor {}", dir.string(),
                 index_path.filename().string());
  }
  TANDEM_ASSIGN(const Json index, read_json_object<Json>(index_path, kMaxIndexBytes));
  const auto weight_map = index.find("weight_map");
  if (weight_map == index.end() || !weight_map->is_object()) {
    return invalid("{} has no object 'weight_map'", index_path.string());
  }
  if (Status added = checkpoint->add_sharded(*weight_map); !added) {
    return added.with_context(index_path.string());
  }
  return std::unique_ptr<WeightSource>(std::move(checkpoint));
}

}  // namespace tandem
