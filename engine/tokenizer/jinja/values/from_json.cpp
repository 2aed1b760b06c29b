#include "engine/tokenizer/jinja/values/from_json.h"

#include <nlohmann/json.hpp>

#include "engine/tokenizer/jinja/values/error.h"

namespace tandem::jinja {

Value from_json(const nlohmann::ordered_json& json, int depth) {
  using Json = nlohmann::ordered_json;
  if (depth > kMaxValueDepth / 2) throw Error("the input is nested too deeply");
  spend(kStepUnits);
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
        return Value(json.get<double>());
      return Value(json.get<std::int64_t>());
    case Json::value_t::number_integer:
      return Value(json.get<std::int64_t>());
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return Value(std::string_view(json.get_ref<const std::string&>()));
    case Json::value_t::array: {
      Values items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json(item, depth + 1));
      return make_list(std::move(items));
    }
    case Json::value_t::object: {
      auto result = make_metered<Dict>();
      for (const auto& [key, value] : json.items())
        result->set(Value(std::string_view(key)), from_json(value, depth + 1));
      return make_dict(std::move(result));
    }
    default:
      return {};
  }
}

}  // namespace tandem::jinja
