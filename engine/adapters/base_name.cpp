#include "engine/adapters/base_name.h"

#include <algorithm>
#include <filesystem>

namespace tandem {
namespace {

// "llama-2-7b-hf" of "meta-llama/Llama-2-7b-hf/".
std::string last_part(std::string_view name) {
  while (name.ends_with('/')) name.remove_suffix(1);
  std::string part(name.substr(name.rfind('/') + 1));  // npos + 1 is 0
  std::ranges::transform(part, part.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return part;
}

}  // namespace

std::vector<std::string> base_names_of(const std::string& folder, const std::string& served) {
  constexpr std::string_view kCache = "models--";
  std::vector<std::string> names = {served};
  std::error_code failure;
  std::filesystem::path path = std::filesystem::canonical(folder, failure);
  if (failure) path = folder;
  names.push_back(last_part(folder));
  names.push_back(path.filename().string());
  for (const std::filesystem::path& part : path) {
    const std::string text = part.string();
    if (!text.starts_with(kCache)) continue;
    const std::size_t end = text.rfind("--");
    if (end >= kCache.size()) names.push_back(text.substr(end + 2));
  }
  std::erase(names, "");
  return names;
}

bool is_base_name(std::string_view named, const std::vector<std::string>& names) {
  if (named.empty() || names.empty()) return true;
  return std::ranges::any_of(names, [part = last_part(named)](const std::string& name) {
    return last_part(name) == part;
  });
}

std::string printable(std::string_view text) {
  std::string result(text.substr(0, 100));
  std::ranges::replace_if(
      result, [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

}  // namespace tandem
