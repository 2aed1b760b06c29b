#include "engine/loader/gguf/gguf_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/file/file.h"
#include "base/text/shown_text.h"

namespace tandem {
namespace {

using Kind = GgufValue::Kind;

constexpr std::uint64_t kMaxEntries = 100'000;  // of metadata, and of tensors
constexpr std::uint64_t kMaxNameBytes = 1024;
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1} << 30;
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::uint64_t kUsualAlignment = 32;
constexpr std::string_view kMagic = "GGUF";

// Bytes of a value; 0: the kind has none of its own.
std::size_t size_of_kind(Kind kind) {
  switch (kind) {
    case Kind::u8:
    case Kind::i8:
    case Kind::boolean:
      return 1;
    case Kind::u16:
    case Kind::i16:
      return 2;
    case Kind::u32:
    case Kind::i32:
    case Kind::f32:
      return 4;
    case Kind::u64:
    case Kind::i64:
    case Kind::f64:
      return 8;
    case Kind::text:
    case Kind::list:
      break;
  }
  return 0;
}

template <typename T>
T load(std::span<const std::byte> bytes, std::uint64_t index = 0) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof value);
  return value;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Takes the text at the front of `bytes`, which holds it.
std::string_view take_text(std::span<const std::byte>& bytes) {
  constexpr std::size_t kLength = sizeof(std::uint64_t);
  const std::string_view text = as_text(bytes.subspan(kLength, load<std::uint64_t>(bytes)));
  bytes = bytes.subspan(kLength + text.size());
  return text;
}

// Takes values from the front of a file, which is read as far as they go: a mapping would end the
// process if the file became shorter. Once bytes are missing, ok() is false and values are 0.
class Cursor {
 public:
  explicit Cursor(const File& file) : file_(file), limit_(std::min(file.size(), kMaxHeaderBytes)) {}

  bool ok() const { return ok_; }
  const Status& read_status() const { return read_status_; }
  std::uint64_t position() const { return position_; }
  std::vector<std::byte> take_all() {
    bytes_.resize(position_);
    return std::move(bytes_);
  }

  // The result is valid until the next call.
  std::span<const std::byte> take(std::uint64_t count) {
    ok_ = ok_ && count <= limit_ - position_ && fetch(position_ + count);
    if (!ok_) return {};
    const auto taken = std::span(bytes_).subspan(position_, count);
    position_ += count;
    return taken;
  }
  template <typename T>
  T number() {
    const auto taken = take(sizeof(T));
    return ok_ ? load<T>(taken) : T();
  }
  std::string_view text() { return as_text(take(number<std::uint64_t>())); }

 private:
  // Reads at least the first `count` bytes of the file.
  bool fetch(std::uint64_t count) {
    constexpr std::uint64_t kLeast = std::uint64_t{64} << 10;
    const std::size_t have = bytes_.size();
    if (count <= have) return true;
    bytes_.resize(std::min(limit_, std::max({count, kLeast, have * 2})));
    read_status_ = file_.read(have, bytes_.data() + have, bytes_.size() - have);
    return read_status_.ok();
  }

  const File& file_;
  std::uint64_t limit_;
  std::vector<std::byte> bytes_;
  std::uint64_t position_ = 0;
  bool ok_ = true;
  Status read_status_;
};

double shortest(float value) {
  std::array<char, 32> digits{};
  const auto written = std::to_chars(digits.begin(), digits.end(), value);
  double result = value;
  std::from_chars(digits.begin(), written.ptr, result);
  return result;
}

}  // namespace

std::optional<std::int64_t> GgufValue::integer(std::uint64_t index) const {
  switch (kind_) {
    case Kind::u8:
      return load<std::uint8_t>(bytes_, index);
    case Kind::i8:
      return load<std::int8_t>(bytes_, index);
    case Kind::u16:
      return load<std::uint16_t>(bytes_, index);
    case Kind::i16:
      return load<std::int16_t>(bytes_, index);
    case Kind::u32:
      return load<std::uint32_t>(bytes_, index);
    case Kind::i32:
      return load<std::int32_t>(bytes_, index);
    case Kind::i64:
      return load<std::int64_t>(bytes_, index);
    case Kind::u64: {
      const auto value = load<std::uint64_t>(bytes_, index);
      if (value > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> GgufValue::number(std::uint64_t index) const {
  if (kind_ != Kind::f32 && kind_ != Kind::f64) {
    const auto whole = integer(index);
    return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
  }
  const double value =
      kind_ == Kind::f32 ? shortest(load<float>(bytes_, index)) : load<double>(bytes_, index);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<bool> GgufValue::boolean(std::uint64_t index) const {
  if (kind_ != Kind::boolean) return std::nullopt;
  return load<std::uint8_t>(bytes_, index) != 0;
}

std::optional<std::string_view> GgufValue::text() const {
  if (kind_ != Kind::text || is_list_) return std::nullopt;
  std::span<const std::byte> bytes = bytes_;
  return take_text(bytes);
}

std::optional<std::vector<std::string_view>> GgufValue::texts() const {
  if (kind_ != Kind::text || !is_list_ || count_ > kMaxTexts) return std::nullopt;
  std::vector<std::string_view> all;
  all.reserve(count_);
  std::span<const std::byte> bytes = bytes_;
  for (std::uint64_t i = 0; i < count_; ++i) all.push_back(take_text(bytes));
  return all;
}

std::string to_string(const GgufTensor& tensor) {
  return fmt::format("{}[{}]", tensor.type->name, fmt::join(tensor.shape, ", "));
}

// Reads a file's header into a GgufFile.
class GgufFile::Reader {
 public:
  Reader(const File& source, GgufFile& file)
      : file_(file), file_bytes_(source.size()), cursor_(source) {}

  Status read() {
    const Status status = read_header();
    if (!cursor_.read_status()) return cursor_.read_status();
    TANDEM_TRY(status);
    file_.header_ = cursor_.take_all();
    for (const Entry& entry : entries_) {
      const auto bytes = std::span(file_.header_).subspan(entry.begin, entry.end - entry.begin);
      *entry.value = GgufValue(entry.kind, entry.is_list, entry.count, bytes);
    }
    TANDEM_TRY(read_alignment());
    return place_tensors();
  }

 private:
  // A value, whose bytes get their place when the whole header has been read.
  struct Entry {
    GgufValue* value;
    Kind kind;
    bool is_list;
    std::uint64_t count;
    std::uint64_t begin, end;
  };

  Status read_header() {
    if (as_text(cursor_.take(kMagic.size())) != kMagic) return invalid("is no GGUF file");
    const auto version = cursor_.number<std::uint32_t>();
    if (cursor_.ok() && version != 2 && version != 3) {
      return invalid("has version {}; 2 and 3, little endian, are read", version);
    }
    const auto num_tensors = cursor_.number<std::uint64_t>();
    const auto num_entries = cursor_.number<std::uint64_t>();
    if (num_tensors > kMaxEntries || num_entries > kMaxEntries) {
      return invalid("claims {} tensors and {} metadata entries, of which {} each are allowed",
                     num_tensors, num_entries, kMaxEntries);
    }
    for (std::uint64_t i = 0; i < num_entries; ++i) TANDEM_TRY(read_entry());
    for (std::uint64_t i = 0; i < num_tensors; ++i) TANDEM_TRY(read_tensor());
    return cursor_.ok() ? Status() : cut_short();
  }

  Status cut_short() const {
    return invalid("ends within its header, or has one of more than {} bytes", kMaxHeaderBytes);
  }

  Result<std::string> read_name(std::string_view what) {
    const std::string_view name = cursor_.text();
    if (!cursor_.ok()) return cut_short();
    if (name.empty() || name.size() > kMaxNameBytes) {
      return invalid("the name of a {} has {} bytes; 1 to {} are allowed", what, name.size(),
                     kMaxNameBytes);
    }
    return std::string(name);
  }

  Status read_entry() {
    TANDEM_ASSIGN(std::string key, read_name("metadata entry"));
    auto kind = cursor_.number<std::uint32_t>();
    const bool is_list = kind == static_cast<std::uint32_t>(Kind::list);
    std::uint64_t count = 1;
    if (is_list) {
      kind = cursor_.number<std::uint32_t>();
      count = cursor_.number<std::uint64_t>();
    }
    if (!cursor_.ok()) return cut_short();
    if (is_list && kind == static_cast<std::uint32_t>(Kind::list)) {
      return invalid("'{}' is a list of lists, which is not supported", shown_text(key));
    }
    if (kind > static_cast<std::uint32_t>(Kind::f64)) {
      return invalid("'{}' has the unknown kind {}", shown_text(key), kind);
    }
    const std::uint64_t begin = cursor_.position();
    const std::size_t size = size_of_kind(Kind(kind));
    if (size > 0) {
      // A count whose product overflows is beyond the file as well.
      cursor_.take(count > kMaxHeaderBytes ? count : count * size);
    } else {
      for (std::uint64_t i = 0; i < count && cursor_.ok(); ++i) cursor_.text();
    }
    if (!cursor_.ok()) return invalid("'{}' reaches beyond the header", shown_text(key));
    const auto [it, is_new] = file_.metadata_.emplace(std::move(key), GgufValue());
    if (!is_new) return invalid("'{}' is there twice", shown_text(it->first));
    entries_.push_back({&it->second, Kind(kind), is_list, count, begin, cursor_.position()});
    return {};
  }

  Status read_alignment() {
    const auto found = file_.metadata_.find("general.alignment");
    if (found == file_.metadata_.end()) return {};
    const std::optional<std::int64_t> value = found->second.integer();
    constexpr std::int64_t kLeast = 8, kMost = 1 << 20;
    if (found->second.is_list() || !value || *value < kLeast || *value > kMost ||
        (*value & (*value - 1)) != 0) {
      return invalid("'general.alignment' must be a power of two from {} to {}", kLeast, kMost);
    }
    alignment_ = static_cast<std::uint64_t>(*value);
    return {};
  }

  Status read_tensor() {
    TANDEM_ASSIGN(std::string name, read_name("tensor"));
    const auto dimensions = cursor_.number<std::uint32_t>();
    if (dimensions > kMaxDimensions || (cursor_.ok() && dimensions == 0)) {
      return invalid("tensor '{}' has {} dimensions; 1 to {} are allowed", shown_text(name),
                     dimensions, kMaxDimensions);
    }
    GgufTensor tensor;
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      const auto size = cursor_.number<std::uint64_t>();
      if (cursor_.ok() && (size == 0 || size > static_cast<std::uint64_t>(INT64_MAX) ||
                           __builtin_mul_overflow(elements, size, &elements))) {
        return invalid("tensor '{}' has an impossible shape", shown_text(name));
      }
      tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
    }
    const auto type = cursor_.number<std::uint32_t>();
    tensor.begin = cursor_.number<std::uint64_t>();
    if (!cursor_.ok()) return cut_short();
    tensor.type = find_gguf_type(type);
    if (tensor.type == nullptr) {
      return invalid(
          "tensor '{}' has type {}, which is not supported; take the Q4_K_M, Q5_K_M, Q6_K or Q8_0 "
          "file of the model",
          shown_text(name), name_of_gguf_type(type));
    }
    const auto row = static_cast<std::uint64_t>(tensor.shape.back());
    if (row % tensor.type->elements != 0) {
      return invalid("tensor '{}', {}, has rows that are no whole blocks of {}", shown_text(name),
                     to_string(tensor), tensor.type->elements);
    }
    if (__builtin_mul_overflow(elements / tensor.type->elements, tensor.type->bytes, &tensor.end)) {
      return invalid("tensor '{}' has an impossible shape", shown_text(name));
    }
    const auto [it, is_new] = file_.tensors_.emplace(std::move(name), std::move(tensor));
    if (!is_new) return invalid("tensor '{}' is there twice", shown_text(it->first));
    return {};
  }

  // Converts the tensors' offsets and sizes to ranges of the file.
  Status place_tensors() {
    const std::uint64_t data = (file_.header_bytes() + alignment_ - 1) / alignment_ * alignment_;
    std::vector<std::pair<const std::string, GgufTensor>*> order;
    for (auto& entry : file_.tensors_) {
      GgufTensor& tensor = entry.second;
      if (tensor.begin % alignment_ != 0) {
        return invalid("tensor '{}' begins at {}, which is not aligned to {}",
                       shown_text(entry.first), tensor.begin, alignment_);
      }
      if (__builtin_add_overflow(tensor.begin, data, &tensor.begin) ||
          __builtin_add_overflow(tensor.begin, tensor.end, &tensor.end) ||
          tensor.end > file_bytes_) {
        return invalid("tensor '{}', {}, reaches beyond the file", shown_text(entry.first),
                       to_string(tensor));
      }
      order.push_back(&entry);
    }
    std::ranges::sort(order, {}, [](const auto* entry) { return entry->second.begin; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (order[i]->second.begin < order[i - 1]->second.end) {
        return invalid("tensor '{}' overlaps '{}'", shown_text(order[i]->first),
                       shown_text(order[i - 1]->first));
      }
    }
    return {};
  }

  GgufFile& file_;
  std::uint64_t file_bytes_;
  Cursor cursor_;
  std::vector<Entry> entries_;
  std::uint64_t alignment_ = kUsualAlignment;
};

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  TANDEM_ASSIGN(const File file, File::open(path));
  TANDEM_ASSIGN(MappedFile mapping, MappedFile::map(file));
  GgufFile result(file.path(), std::move(mapping));
  const Status status = Reader(file, result).read();
  if (!status) return status.with_context(result.path());
  return result;
}

bool is_gguf_file(const std::filesystem::path& path) {
  std::error_code ignored;  // an inaccessible path has no known format
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  if (path.extension() == ".gguf") return true;
  std::array<char, kMagic.size()> magic = {};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return std::string_view(magic.data(), magic.size()) == kMagic;
}

}  // namespace tandem
