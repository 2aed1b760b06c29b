#include "engine/loader/json.h"

#include <algorithm>
#include <functional>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "base/file/file.h"

namespace tandem {
namespace {

// A callback during nlohmann's parse. It stops the parse by an exception, the only way that the
// library offers.
template <typename J>
class Guard {
 public:
  bool operator()(int /*depth*/, typename J::parse_event_t event, J& parsed) {
    using Event = typename J::parse_event_t;
    switch (event) {
      case Event::object_start:
        keys_.emplace_back();
        break;
      case Event::object_end:
        keys_.pop_back();
        break;
      case Event::key:
        see_key(parsed.template get_ref<const std::string&>());
        break;
      case Event::array_start:
      case Event::array_end:
      case Event::value:
        break;
    }
    return true;
  }

  struct Refused {
    std::string why;
  };

 private:
  void see_key(const std::string& key) {
    if (!keys_.back().insert(key).second) throw Refused{fmt::format("has the key '{}' twice", key)};
    if (std::is_same_v<J, OrderedJson> && keys_.back().size() > kMaxOrderedKeys) {
      throw Refused{fmt::format("has an object of more than {} keys", kMaxOrderedKeys)};
    }
  }

  std::vector<std::unordered_set<std::string>> keys_;
};

// Removes the input that the library quotes in its messages. It need not be UTF-8 and may be
// private, since the file may not be JSON at all.
std::string without_quotes(std::string_view why) {
  for (const std::string_view quote : {"; last read: ", " parsing '"}) {
    why = why.substr(0, why.find(quote));
  }
  std::string text(why);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace

template <typename J>
Result<J> parse_json_object(std::string_view text) {
  // The library takes a NUL for the end of the text and would ignore the rest.
  if (text.find('\0') != std::string_view::npos) return invalid("is not JSON: it holds a NUL byte");
  if (nests_deeper_than(text, kMaxJsonDepth)) return invalid("is nested too deeply");
  try {
    Guard<J> guard;
    J json = J::parse(text.begin(), text.end(), std::ref(guard));
    if (!json.is_object()) return invalid("is not a JSON object");
    return json;
  } catch (const typename Guard<J>::Refused& refused) {
    return invalid("{}", refused.why);
  } catch (const std::exception& e) {
    return invalid("is not JSON: {}", without_quotes(e.what()));
  }
}

template <typename J>
Result<J> read_json_object(const std::filesystem::path& path, std::uint64_t max_bytes) {
  TANDEM_ASSIGN(const std::string text, read_text_file(path, max_bytes));
  Result<J> json = parse_json_object<J>(text);
  if (!json) return json.status().with_context(path.string());
  return json;
}

template Result<Json> parse_json_object<Json>(std::string_view);
template Result<OrderedJson> parse_json_object<OrderedJson>(std::string_view);
template Result<Json> read_json_object<Json>(const std::filesystem::path&, std::uint64_t);
template Result<OrderedJson> read_json_object<OrderedJson>(const std::filesystem::path&,
                                                           std::uint64_t);

}  // namespace tandem
