// A GGUF file: its header, read and checked, and a mapping of its tensors.
//
//   magic "GGUF" | version | numbers of tensors and of metadata entries | metadata: keys and values
//   tensors: name, shape, type and offset | padding | the tensors' data, each padded
//
// Everything is little endian; a text is its length, 8 bytes, and its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/gguf/gguf_types.h"
#include "engine/loader/safetensors/mapped_file.h"

namespace tandem {

// A value of the metadata, or a list of values of one kind.
class GgufValue {
 public:
  // In the format's numbering.
  enum class Kind : std::uint32_t {
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    f32,
    boolean,
    text,
    list,
    u64,
    i64,
    f64
  };

  static constexpr std::uint64_t kMaxTexts = std::uint64_t{1} << 22;

  GgufValue() = default;
  // `bytes`: those of `count` values of this kind, which is no list.
  GgufValue(Kind kind, bool is_list, std::uint64_t count, std::span<const std::byte> bytes)
      : kind_(kind), is_list_(is_list), count_(count), bytes_(bytes) {}

  bool is_list() const { return is_list_; }
  std::uint64_t count() const { return count_; }  // 1 for a value that is no list

  // Return the value at `index` < count(), or nothing if it has another kind or is too large.
  std::optional<std::int64_t> integer(std::uint64_t index = 0) const;
  // An integer, or a finite floating-point number. One of f32 is read as the shortest decimal that
  // stands for it, because that is what the model's config.json has.
  std::optional<double> number(std::uint64_t index = 0) const;
  std::optional<bool> boolean(std::uint64_t index = 0) const;
  std::optional<std::string_view> text() const;  // of a value that is no list
  // All of a list of at most kMaxTexts texts.
  std::optional<std::vector<std::string_view>> texts() const;

 private:
  Kind kind_ = Kind::u8;
  bool is_list_ = false;
  std::uint64_t count_ = 0;
  std::span<const std::byte> bytes_;  // of the header
};

struct GgufTensor {
  const GgufType* type = nullptr;
  std::vector<std::int64_t> shape;  // slowest dimension first, as in safetensors; none is 0
  std::uint64_t begin = 0;          // byte range [begin, end) of the file
  std::uint64_t end = 0;
};

// Returns, for example, "Q4_K[16, 4096]".
std::string to_string(const GgufTensor& tensor);

// Move-only. Thread-safe once open.
class GgufFile {
 public:
  // Refuses, with the file and the entry named: versions other than 2 and 3, counts, lengths and
  // offsets beyond the file, lists of lists, names that appear twice or are longer than 1,024
  // bytes, types that Tandem does not read, shapes whose size overflows or that are no whole
  // blocks, and tensors that overlap. Memory is bounded by twice the size of the header. A file
  // that becomes shorter meanwhile is an error here; later, MappedFile says what happens.
  static Result<GgufFile> open(const std::filesystem::path& path);

  using Metadata = std::map<std::string, GgufValue, std::less<>>;
  using Tensors = std::map<std::string, GgufTensor, std::less<>>;

  const std::string& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }
  const Tensors& tensors() const { return tensors_; }
  std::span<const std::byte> bytes(const GgufTensor& tensor) const {
    return mapping_.bytes().subspan(tensor.begin, tensor.end - tensor.begin);
  }
  const MappedFile& mapping() const { return mapping_; }
  // Where the header ends: behind the last tensor's offset, before the padding.
  std::uint64_t header_bytes() const { return header_.size(); }

 private:
  class Reader;
  GgufFile(std::string path, MappedFile mapping)
      : path_(std::move(path)), mapping_(std::move(mapping)) {}

  std::string path_;
  MappedFile mapping_;
  Metadata metadata_;
  Tensors tensors_;
  std::vector<std::byte> header_;  // the values of metadata_ point into it
};

// True if the file's name or its first bytes say so.
bool is_gguf_file(const std::filesystem::path& path);

}  // namespace tandem
