#include "engine/loader/base_identity.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file/file.h"
#include "engine/loader/gguf/gguf_model.h"
#include "engine/loader/json.h"
#include "engine/loader/safetensors/safetensors_header.h"
#include "engine/loader/thread_team.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// These files decide a prompt's tokens and the end of an answer.
constexpr std::array kFiles = {
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template.json",
    "generation_config.json",
    "chat_template.jinja",
};
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::uint64_t kMostOfFile = std::uint64_t{256} << 20;
constexpr std::size_t kWholePieceBytes = std::size_t{4} << 20;
constexpr std::size_t kSampleBytes = 1024;
// Each place is one disk read, and mixture-of-experts models have tens of thousands of tensors.
constexpr std::size_t kMostPlaces = 8192;
constexpr std::size_t kPlacesOfTensor = 8;
constexpr std::size_t kDigestBytes = 32;

Status hash_into(std::string_view bytes, char* into) {
  if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(into), nullptr,
                 EVP_sha256(), nullptr) == 1) {
    return {};
  }
  return error(StatusCode::internal, "OpenSSL cannot compute SHA-256");
}

Result<std::string> hex_of(std::string_view bytes) {
  std::array<char, kDigestBytes> hashed{};
  TANDEM_TRY(hash_into(bytes, hashed.data()));
  std::string text;
  for (std::size_t i = 0; i < kDigestBytes / 2; ++i) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(hashed[i]));
  }
  return text;
}

// A part of a file. Its hash is stored at its index among the hashes of all parts.
struct Part {
  const File* file = nullptr;
  std::uint64_t begin = 0;
  std::size_t count = 0;
};

// Returns the hashes of the parts, in their order. Several threads read from the disk.
Result<std::string> hash_parts(const std::vector<Part>& parts, std::size_t at_once) {
  std::string hashes(parts.size() * kDigestBytes, '\0');
  std::mutex mutex;
  Status failure;  // the first failure; guarded by mutex
  parallel_chunks(parts.size(), at_once, [&](std::size_t first, std::size_t end) {
    std::string bytes;
    for (std::size_t i = first; i < end; ++i) {
      const Part& part = parts[i];
      bytes.resize(part.count);
      Status status = part.file->read(part.begin, bytes.data(), part.count);
      if (status) status = hash_into(bytes, hashes.data() + i * kDigestBytes);
      if (status) continue;
      const std::lock_guard lock(mutex);
      if (failure) failure = std::move(status);
      return;
    }
  });
  if (!failure) return failure;
  return hashes;
}

// A file of weights.
struct ShardFile {
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  File file;
  std::vector<Range> tensors;      // in the order of their names
  std::uint64_t header_bytes = 0;  // those at the front that are hashed whole

  template <typename Tensors>
  static ShardFile of(File file, const Tensors& tensors, std::uint64_t header_bytes) {
    ShardFile shard{std::move(file), {}, header_bytes};
    for (const auto& [name, tensor] : tensors) {
      shard.tensors.push_back({tensor.begin, tensor.end});
    }
    return shard;
  }
};

// Returns the names of the checkpoint's files, in order.
Result<std::set<std::string>> shard_names(const fs::path& folder) {
  std::error_code failure;
  const fs::path index = folder / kIndex;
  if (fs::exists(folder / kSingle, failure) || !fs::exists(index, failure)) {
    return std::set<std::string>{kSingle};
  }
  TANDEM_ASSIGN(const Json json, read_json_object<Json>(index, kMostOfFile));
  const auto weight_map = json.find("weight_map");
  if (weight_map == json.end() || !weight_map->is_object()) {
    return invalid("{} has no object 'weight_map'", index.string());
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map->items()) {
    if (!file.is_string() || file.get_ref<const std::string&>().find('/') != std::string::npos) {
      return invalid("{}: '{}' names no file of the folder", index.string(), tensor);
    }
    names.insert(file.get<std::string>());
  }
  return names;
}

Result<std::vector<ShardFile>> open_shards(const fs::path& model) {
  std::vector<ShardFile> shards;
  if (is_gguf_file(model)) {
    TANDEM_ASSIGN(const GgufModel gguf, GgufModel::open(model));
    for (const auto& part : gguf.files()) {
      TANDEM_ASSIGN(File file, File::open(part->path()));
      shards.push_back(ShardFile::of(std::move(file), part->tensors(), part->header_bytes()));
    }
    return shards;
  }
  TANDEM_ASSIGN(const std::set<std::string> names, shard_names(model));
  for (const std::string& name : names) {
    TANDEM_ASSIGN(File file, File::open(model / name));
    TANDEM_ASSIGN(const SafetensorsHeader header, SafetensorsHeader::read(file));
    std::uint64_t data_begin = file.size();
    for (const auto& [tensor, info] : header.tensors()) {
      data_begin = std::min(data_begin, info.begin);
    }
    shards.push_back(ShardFile::of(std::move(file), header.tensors(), data_begin));
  }
  return shards;
}

// Adds parts spread over the tensor, including its first and last bytes.
void add_sample(const File& file, ShardFile::Range tensor, std::size_t places,
                std::vector<Part>& parts) {
  const std::uint64_t size = tensor.end - tensor.begin;
  if (size <= places * kSampleBytes) {
    if (size > 0) parts.push_back({&file, tensor.begin, static_cast<std::size_t>(size)});
    return;
  }
  for (std::size_t i = 0; i < places; ++i) {
    const std::uint64_t last = size - kSampleBytes;
    const std::uint64_t at = i + 1 == places ? last : last / places * i;
    parts.push_back({&file, tensor.begin + at, kSampleBytes});
  }
}

Status add_files(const fs::path& folder, std::string& text) {
  const auto add = [&](const char* name) -> Status {
    std::error_code failure;
    const fs::path path = folder / name;
    if (!fs::exists(path, failure)) return {};
    TANDEM_ASSIGN(const std::string bytes, read_text_file(path, kMostOfFile));
    TANDEM_ASSIGN(const std::string hashed, hex_of(bytes));
    text += fmt::format("{} {}\n", name, hashed);
    return {};
  };
  for (const char* const name : kFiles) TANDEM_TRY(add(name));
  return add(kIndex);
}

Status add_sampled_weights(const std::vector<ShardFile>& shards, std::string& text) {
  std::size_t tensors = 0;
  for (const ShardFile& shard : shards) tensors += shard.tensors.size();
  const std::size_t places =
      std::clamp<std::size_t>(kMostPlaces / std::max<std::size_t>(tensors, 1), 1, kPlacesOfTensor);
  std::vector<Part> parts;
  for (const ShardFile& shard : shards) {
    text +=
        fmt::format("{} {}\n", fs::path(shard.file.path()).filename().string(), shard.file.size());
    parts.push_back({&shard.file, 0, static_cast<std::size_t>(shard.header_bytes)});
    for (const ShardFile::Range tensor : shard.tensors) {
      add_sample(shard.file, tensor, places, parts);
    }
  }
  constexpr std::size_t kAtOnce = 16;
  TANDEM_ASSIGN(const std::string hashes, hash_parts(parts, kAtOnce));
  text += hashes;
  return {};
}

Result<std::string> whole_weights(const std::vector<ShardFile>& shards) {
  std::vector<Part> parts;
  for (const ShardFile& shard : shards) {
    for (std::uint64_t at = 0; at < shard.file.size(); at += kWholePieceBytes) {
      const std::uint64_t left = shard.file.size() - at;
      parts.push_back({&shard.file, at,
                       static_cast<std::size_t>(std::min<std::uint64_t>(left, kWholePieceBytes))});
    }
  }
  TANDEM_ASSIGN(const std::string hashes, hash_parts(parts, 1));
  return hex_of(hashes);
}

}  // namespace

Result<std::string> base_identity(const fs::path& model, BaseReading reading,
                                  std::string_view also) {
  std::string text = "tandem base 1\n";
  TANDEM_ASSIGN(const std::string besides, hex_of(also));
  text += besides;
  TANDEM_TRY(add_files(model, text));  // a GGUF file has none: its header holds it all
  TANDEM_ASSIGN(const std::vector<ShardFile> shards, open_shards(model));
  TANDEM_TRY(add_sampled_weights(shards, text));
  TANDEM_ASSIGN(std::string identity, hex_of(text));
  if (reading == BaseReading::sample) return identity;
  TANDEM_ASSIGN(const std::string whole, whole_weights(shards));
  return identity + "-" + whole;
}

Result<std::string> dummy_base_identity(const fs::path& model, std::uint64_t seed,
                                        std::string_view also) {
  std::string text = fmt::format("tandem dummy base 1 {}\n{}\n", seed, also);
  std::error_code failure;
  if (fs::is_directory(model, failure)) {
    TANDEM_TRY(add_files(model, text));
  } else {
    text += model.string();
  }
  return hex_of(text);
}

}  // namespace tandem
