// Builds JSON values from text like nlohmann's parser, but in linear time also for objects
// that keep their order, and without running its destructor after memory ran out
// (json_release.h).
#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json/json_members.h"
#include "base/json/json_release.h"

namespace tandem {

// Receives the events of Json::sax_parse(). Json: nlohmann::json or nlohmann::ordered_json. Of
// members with the same name, the last one counts.
template <typename Json>
class JsonBuilder final : public nlohmann::json_sax<Json> {
  using Base = nlohmann::json_sax<Json>;
  using String = typename Base::string_t;

 public:
  // `names`: the wanted members of the outermost object; empty: all. The names outlive the
  // builder.
  explicit JsonBuilder(std::span<const std::string_view> names = {}) : names_(names) {}
  ~JsonBuilder() override {
    for (Open& open : open_) empty_from_leaves(open.value);
    empty_from_leaves(result_);
  }
  JsonBuilder(const JsonBuilder&) = delete;
  JsonBuilder& operator=(const JsonBuilder&) = delete;

  // Called once, after everything has been parsed.
  Json take_result() { return std::move(result_); }
  // For a text that is not JSON: the wrong byte's position; 0: a number in it is out of range.
  std::size_t wrong_byte() const { return wrong_byte_; }

  bool null() override { return add(Json()); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(typename Base::number_integer_t v) override { return add(v); }
  bool number_unsigned(typename Base::number_unsigned_t v) override { return add(v); }
  bool number_float(typename Base::number_float_t v, const String&) override { return add(v); }
  bool string(String& v) override { return add(std::move(v)); }
  bool binary(typename Base::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(String& name) override {
    if (skipped_ > 0) return true;
    skips_next_ = open_.size() == 1 && !names_.empty() &&
                  std::find(names_.begin(), names_.end(), name) == names_.end();
    open_.back().name = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& why) override {
    const auto* wrong = dynamic_cast<const nlohmann::detail::parse_error*>(&why);
    wrong_byte_ = wrong == nullptr ? 0 : wrong->byte;
    return false;
  }

 private:
  static constexpr bool kInOrder = std::is_same_v<Json, nlohmann::ordered_json>;

  struct Open {
    Json value;
    std::string name;                           // name of the next member
    std::map<std::string, std::size_t> places;  // by name, of existing members; kInOrder
  };

  bool add(Json value) {
    if (skipped_ > 0 || std::exchange(skips_next_, false)) return true;
    if (open_.empty()) {
      result_ = std::move(value);
      return true;
    }
    const EmptiedFromLeaves unless_taken(value);
    Open& parent = open_.back();
    if (parent.value.is_array()) {
      parent.value.push_back(std::move(value));
      return true;
    }
    auto& members = parent.value.template get_ref<typename Json::object_t&>();
    if constexpr (kInOrder) {
      const auto [place, fresh] = parent.places.emplace(parent.name, members.size());
      // nlohmann's own emplace searches all members.
      if (fresh) {
        add_member(members, std::move(parent.name), value);
      } else {
        members.begin()[static_cast<std::ptrdiff_t>(place->second)].second.swap(value);
      }
    } else {
      members[std::move(parent.name)].swap(value);
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
  Json result_;
  std::vector<Open> open_;
  std::size_t wrong_byte_ = 0;
  int skipped_ = 0;          // open containers inside an unwanted member
  bool skips_next_ = false;  // the next value belongs to an unwanted member
};

}  // namespace tandem
