#include "engine/loader/gguf/gguf_model.h"

#include <fmt/format.h>

#include <utility>

#include "base/text/shown_text.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxFiles = 1000;

Status wrong_kind(std::string_view key, std::string_view wanted) {
  return invalid("'{}' must be {}", shown_text(key), wanted);
}

}  // namespace

Result<GgufModel> GgufModel::open(const fs::path& path) {
  GgufModel model;
  TANDEM_ASSIGN(GgufFile file, GgufFile::open(path));
  TANDEM_TRY(model.add(std::move(file)));
  const auto check = [&]() -> Status {
    TANDEM_ASSIGN(const std::optional<std::int64_t> number, model.integer("split.no"));
    TANDEM_ASSIGN(const std::optional<std::int64_t> count, model.integer("split.count"));
    if (count.value_or(1) <= 1) return {};
    if (*count > kMaxFiles) return invalid("'split.count' is {}, above {}", *count, kMaxFiles);
    if (number.value_or(0) < 0 || number.value_or(0) >= *count) {
      return invalid("'split.no' is {}, of {} parts", *number, *count);
    }
    if (number.value_or(0) != 0) {
      return invalid("is part {} of {}; name the first one", *number + 1, *count);
    }
    TANDEM_TRY(model.add_others(path, *count));
    TANDEM_ASSIGN(const std::optional<std::int64_t> tensors, model.integer("split.tensors.count"));
    const auto there = static_cast<std::int64_t>(model.places_.size());
    if (tensors.value_or(there) == there) return {};
    return invalid("and its other parts hold {} tensors, 'split.tensors.count' is {}", there,
                   *tensors);
  };
  const Status status = check();
  if (!status) return status.with_context(path.string());
  return model;
}

Status GgufModel::add(GgufFile file) {
  const GgufFile& kept = *files_.emplace_back(std::make_unique<GgufFile>(std::move(file)));
  for (const auto& [name, tensor] : kept.tensors()) {
    if (places_.insert({name, {&kept, &tensor}}).second) continue;
    return invalid("{}: tensor '{}' is in another part, too", kept.path(), shown_text(name));
  }
  return {};
}

Status GgufModel::add_others(const fs::path& first, std::int64_t count) {
  const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
  const std::string name = first.filename().string();
  if (!name.ends_with(ending)) {
    return invalid("'split.count' is {}, so that the file's name should end in '{}'", count,
                   ending);
  }
  const std::string stem = name.substr(0, name.size() - ending.size());
  for (std::int64_t i = 1; i < count; ++i) {
    const std::string other = fmt::format("{}-{:05}-of-{:05}.gguf", stem, i + 1, count);
    TANDEM_ASSIGN(GgufFile file, GgufFile::open(first.parent_path() / other));
    const auto part = file.metadata().find("split.no");
    if (part == file.metadata().end() || part->second.is_list() || part->second.integer() != i) {
      return invalid("{}: 'split.no' is not {}", other, i);
    }
    TANDEM_TRY(add(std::move(file)));
  }
  return {};
}

const GgufTensor* GgufModel::tensor(std::string_view name) const {
  const auto it = places_.find(name);
  return it == places_.end() ? nullptr : it->second.tensor;
}

const GgufValue* GgufModel::find(std::string_view key) const {
  const GgufFile::Metadata& metadata = files_.front()->metadata();
  const auto it = metadata.find(key);
  return it == metadata.end() ? nullptr : &it->second;
}

Result<std::optional<std::int64_t>> GgufModel::integer(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::optional<std::int64_t>();
  const auto number = value->is_list() ? std::nullopt : value->integer();
  if (!number) return wrong_kind(key, "a whole number");
  return number;
}

Result<std::optional<double>> GgufModel::number(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::optional<double>();
  const auto number = value->is_list() ? std::nullopt : value->number();
  if (!number) return wrong_kind(key, "a number");
  return number;
}

Result<std::optional<bool>> GgufModel::boolean(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::optional<bool>();
  const auto flag = value->is_list() ? std::nullopt : value->boolean();
  if (!flag) return wrong_kind(key, "true or false");
  return flag;
}

Result<std::optional<std::string_view>> GgufModel::text(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::optional<std::string_view>();
  const auto text = value->text();
  if (!text) return wrong_kind(key, "a text");
  return text;
}

Result<std::vector<std::string_view>> GgufModel::texts(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::vector<std::string_view>();
  auto texts = value->texts();
  if (!texts) {
    return wrong_kind(key, fmt::format("a list of at most {} texts", GgufValue::kMaxTexts));
  }
  return *std::move(texts);
}

Result<std::string_view> GgufModel::architecture() const {
  TANDEM_ASSIGN(const std::optional<std::string_view> name, text("general.architecture"));
  if (!name) return invalid("'general.architecture' is missing");
  return *name;
}

}  // namespace tandem
