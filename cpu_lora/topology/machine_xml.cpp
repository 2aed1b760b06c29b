#include "cpu_lora/topology/machine_xml.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "base/file/file.h"

namespace tandem {
namespace {

// The size for a machine with 20,000 hardware threads, whose cpu sets are written in full.
constexpr std::uint64_t kMaxBytes = std::uint64_t{512} << 20;
// The deepest known machines have about 40 levels: objects, and nested PCI bridges.
constexpr int kMaxDepth = 256;

class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) { safe_.reserve(text.size()); }

  Result<std::string> scan() {
    if (rest_.find('\0') != std::string_view::npos) return invalid("it is not UTF-8");
    while (true) {
      const std::size_t open = rest_.find('<');
      safe_ += rest_.substr(0, open);
      if (open == std::string_view::npos) return std::move(safe_);
      rest_.remove_prefix(open);
      if (rest_.starts_with("<!--")) {
        TANDEM_TRY(skip_comment());
      } else {
        TANDEM_TRY(take_tag());
      }
    }
  }

 private:
  Status skip_comment() {
    const std::size_t end = rest_.find("-->", 4);
    if (end == std::string_view::npos) return invalid("a comment has no end");
    rest_.remove_prefix(end + 3);
    return {};
  }

  Status take_tag() {
    const std::size_t start = safe_.size();
    TANDEM_TRY(copy_tag());
    const std::string_view tag = std::string_view(safe_).substr(start);
    if (tag.starts_with("<?")) return check_encoding(tag);
    if (tag.starts_with("<!")) {
      if (tag.starts_with("<!DOCTYPE") && tag.find('[') == std::string_view::npos) return {};
      return invalid("it has declarations of its own");
    }
    if (tag.starts_with("</")) {
      depth_ = std::max(depth_ - 1, 0);
    } else if (!tag.ends_with("/>") && ++depth_ > kMaxDepth) {
      return invalid("its elements are nested more than {} deep", kMaxDepth);
    }
    return {};
  }

  // Copies up to the '>' that ends the tag.
  Status copy_tag() {
    char quote = 0;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      const char c = rest_[i];
      if (quote != 0 && c == '<') return invalid("an attribute has a '<'");
      if (quote != 0 && c == '>') {
        safe_ += "&gt;";
        continue;
      }
      safe_ += c;
      if (quote == 0 && c == '>') {
        rest_.remove_prefix(i + 1);
        return {};
      }
      if (quote == c) {
        quote = 0;
      } else if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
      }
    }
    return invalid("a tag has no end");
  }

  static Status check_encoding(std::string_view tag) {
    const std::size_t at = tag.find("encoding");
    if (at == std::string_view::npos) return {};
    std::string name(tag.substr(at));
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name.find("\"utf-8\"") != std::string::npos || name.find("'utf-8'") != std::string::npos
               ? Status()
               : invalid("it is not UTF-8");
  }

  std::string_view rest_;
  std::string safe_;
  int depth_ = 0;
};

}  // namespace

Result<std::string> safe_machine_xml(std::string_view text) {
  return Scanner(text).scan();
}

Result<std::string> read_machine_xml(const std::string& path) {
  TANDEM_ASSIGN(const std::string text, read_text_file(path, kMaxBytes));
  Result<std::string> safe = safe_machine_xml(text);
  if (safe) return safe;
  return safe.status().with_context(
      fmt::format("{} is not a machine that hwloc has described in XML", path));
}

}  // namespace tandem
