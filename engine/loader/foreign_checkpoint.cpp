#include "engine/loader/foreign_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <system_error>

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTakeOriginal =
    "Tandem reads safetensors: take the original checkpoint, a folder with a config.json and "
    ".safetensors files";

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::equal(a, b, {}, lower, lower);
}

// Parts behind the first, and the images' half of a model, are not what --model takes.
bool is_named_gguf(std::string_view name) {
  if (!name.ends_with(".gguf") || name.starts_with("mmproj")) return false;
  constexpr std::string_view kFirst = "-00001", kEnding = "-00001-of-00002.gguf";
  if (name.size() < kEnding.size()) return true;
  const std::string_view ending = name.substr(name.size() - kEnding.size());
  return ending.starts_with(kFirst) || ending.substr(kFirst.size(), 4) != "-of-";
}

}  // namespace

std::string foreign_format(const fs::path& path) {
  std::error_code ignored;  // an inaccessible path has no known format
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
    names.insert(entry.path().filename().string());
  }
  for (const std::string& name : names) {
    if (is_named_gguf(name)) {
      return fmt::format("{} holds a GGUF file; name the file itself, {}", path.string(),
                         (path / name).string());
    }
    if (name.starts_with("pytorch_model") && name.ends_with(".bin")) {
      return fmt::format(
          "{} holds pickle ({}), which is never read, as loading it runs code. Save the model as "
          "safetensors",
          path.string(), name);
    }
    if (name.starts_with("consolidated.")) {
      return fmt::format("{} holds {}, the format of the model's makers. {}", path.string(), name,
                         kTakeOriginal);
    }
  }
  return {};
}

std::string_view foreign_format_in_name(std::string_view name) {
  constexpr std::array<std::string_view, 3> kFormats = {"EXL2", "MLX", "ONNX"};
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of("-_./"), name.size());
    const std::string_view word = name.substr(0, end);
    const auto* const found = std::ranges::find_if(
        kFormats, [&](std::string_view format) { return same_letters(format, word); });
    if (found != kFormats.end()) return *found;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return {};
}

}  // namespace tandem
