#include "engine/server/messages/ordered_json.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using Members = std::vector<std::pair<const std::string, Json>>;

Members& members_of(Json& object) {
  return object.get_ref<Json::object_t&>();
}

// Builds the value from the parser's events, with a stack of the containers that are open.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  // `names`: of the outermost object's members the ones that are wanted; empty: all.
  explicit Builder(std::span<const std::string_view> names) : names_(names) {}

  bool null() override { return add(Json()); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(v); }
  bool number_unsigned(number_unsigned_t v) override { return add(v); }
  bool number_float(number_float_t v, const string_t&) override { return add(v); }
  bool string(string_t& v) override { return add(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (skipped_ > 0) return true;
    skips_next_ = open_.size() == 1 && !names_.empty() &&
                  std::find(names_.begin(), names_.end(), name) == names_.end();
    open_.back().name = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  Json result;

 private:
  struct Open {
    Json value;
    std::string name;                           // of the member that comes next
    std::map<std::string, std::size_t> places;  // of the members there are
  };

  bool add(Json value) {
    if (skipped_ > 0 || std::exchange(skips_next_, false)) return true;
    if (open_.empty()) {
      result = std::move(value);
      return true;
    }
    Open& parent = open_.back();
    if (parent.value.is_array()) {
      parent.value.push_back(std::move(value));
      return true;
    }
    Members& members = members_of(parent.value);
    const auto [place, fresh] = parent.places.emplace(parent.name, members.size());
    if (fresh) {
      members.emplace_back(std::move(parent.name), std::move(value));
    } else {
      members[place->second].second = std::move(value);
    }
    return true;
  }

  bool open(Json empty) {
    if (skipped_ > 0 || std::exchange(skips_next_, false)) {
      ++skipped_;
    } else {
      open_.push_back({std::move(empty), {}, {}});
    }
    return true;
  }

  bool close() {
    if (skipped_ > 0) {
      --skipped_;
      return true;
    }
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  std::span<const std::string_view> names_;
  std::vector<Open> open_;
  int skipped_ = 0;          // containers that are open inside an unwanted member
  bool skips_next_ = false;  // the value that comes next is of an unwanted member
};

}  // namespace

std::optional<Json> parse_in_order(std::string_view text) {
  if (nests_deeper_than(text, kMaxJsonDepth)) return std::nullopt;
  Builder builder({});
  if (!Json::sax_parse(text, &builder)) return std::nullopt;
  return std::move(builder.result);
}

Json parse_members_in_order(std::string_view object, std::span<const std::string_view> names) {
  Builder builder(names);
  if (!Json::sax_parse(object, &builder)) return Json::object();
  return std::move(builder.result);
}

void append_member(Json& object, const std::string& name, Json value) {
  members_of(object).emplace_back(name, std::move(value));
}

}  // namespace tandem
