// The JSON of a profile, parsed as untrusted input.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/file/file.h"
#include "engine/loader/json_fields.h"
#include "engine/profile/lessons_json.h"
#include "engine/profile/profile.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFileBytes = 16U << 20;
constexpr std::size_t kMaxTables = 64;
constexpr std::int64_t kMostDevices = 64;
constexpr std::size_t kMaxRows = 20'000;
constexpr std::size_t kMaxColumns = 16;
constexpr std::size_t kMaxTextBytes = 256;
constexpr std::size_t kMaxWhyBytes = 1024;
constexpr double kLargest = 1e18;
constexpr double kWidestSpread = 1e6;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;

Result<std::string> required_text(const JsonFields<Json>& fields, std::string_view name) {
  TANDEM_ASSIGN(std::string text, fields.text(name));
  if (text.empty()) return invalid("'{}' is missing", name);
  if (text.size() > kMaxTextBytes) return invalid("'{}' is longer than {}", name, kMaxTextBytes);
  return text;
}

Result<const Json*> required_object(const JsonFields<Json>& fields, std::string_view name) {
  const Json* found = fields.find(name);
  if (found == nullptr) return invalid("'{}' is missing", name);
  if (!found->is_object()) return invalid("'{}' must be an object", name);
  return found;
}

Result<const Json*> required_list(const JsonFields<Json>& fields, std::string_view name,
                                  std::size_t most) {
  const Json* found = fields.find(name);
  if (found == nullptr) return invalid("'{}' is missing", name);
  if (!found->is_array()) return invalid("'{}' must be a list", name);
  if (found->size() > most) return invalid("'{}' has more than {} entries", name, most);
  return found;
}

Result<double> finite(const Json& value, std::string_view where) {
  if (!value.is_number()) return invalid("{}: not a number", where);
  const double number = value.get<double>();
  if (!std::isfinite(number) || std::abs(number) > kLargest) {
    return invalid("{}: {} is no measurement", where, number);
  }
  return number;
}

Result<CostModel> read_costs(const Json& object) {
  const JsonFields<Json> fields(object);
  CostModel costs;
  for (const CostField& field : cost_fields()) {
    const Json* found = fields.find(field.key);
    if (found == nullptr) return invalid("costs: '{}' is missing", field.key);
    TANDEM_ASSIGN(const double value, finite(*found, field.key));
    if (value < field.low || value > field.high) {
      return invalid("costs: '{}' is {}, it must be from {} to {}", field.key, value, field.low,
                     field.high);
    }
    costs.*field.member = value;
  }
  TANDEM_ASSIGN(const std::int64_t tokens, fields.required_integer("tokens_per_core", 1, 1 << 20));
  TANDEM_ASSIGN(const std::int64_t bytes, fields.required_integer("element_bytes", 1, 8));
  costs.tokens_per_core = static_cast<std::int32_t>(tokens);
  costs.element_bytes = static_cast<std::int32_t>(bytes);
  return costs;
}

Result<ProfileModel> read_model(const Json& object) {
  const JsonFields<Json> fields(object);
  ProfileModel model;
  TANDEM_ASSIGN(model.name, required_text(fields, "name"));
  const std::pair<const char*, std::int64_t*> sizes[] = {
      {"hidden_size", &model.hidden_size}, {"num_layers", &model.num_layers},
      {"num_heads", &model.num_heads},     {"num_kv_heads", &model.num_kv_heads},
      {"head_dim", &model.head_dim},       {"ffn_size", &model.ffn_size},
      {"vocab_size", &model.vocab_size}};
  for (const auto& [key, target] : sizes) {
    TANDEM_ASSIGN(*target, fields.required_integer(key, 1, kMaxSize));
  }
  TANDEM_ASSIGN(const std::string dtype, required_text(fields, "dtype"));
  const auto known = parse_dtype(dtype);
  if (!known) return known.status().with_context("model");
  model.dtype = *known;
  TANDEM_ASSIGN(const std::optional<std::int64_t> devices,
                fields.integer("devices", 1, kMostDevices));
  model.devices = devices.value_or(1);
  return model;
}

bool is_cost(std::string_view name) {
  return name == kTokensPerCore || std::ranges::any_of(cost_fields(), [&](const CostField& field) {
           return field.key == name;
         });
}

Result<FigureSpread> read_figure(const Json& object) {
  if (!object.is_object()) return invalid("figures: an entry is no object");
  const JsonFields<Json> fields(object);
  FigureSpread figure;
  TANDEM_ASSIGN(figure.name, required_text(fields, "name"));
  if (!is_cost(figure.name)) return invalid("figures: there is no cost '{}'", figure.name);
  for (const auto& [key, target] :
       {std::pair<const char*, double*>{"value", &figure.value}, {"spread", &figure.spread}}) {
    const Json* found = fields.find(key);
    if (found == nullptr) return invalid("figure '{}': '{}' is missing", figure.name, key);
    TANDEM_ASSIGN(*target, finite(*found, figure.name));
  }
  if (figure.spread < 0 || figure.spread > kWidestSpread) {
    return invalid("figure '{}': 'spread' is {}, it must be from 0 to {}", figure.name,
                   figure.spread, kWidestSpread);
  }
  const Json* certain = fields.find("certain");
  if (certain == nullptr || !certain->is_boolean()) {
    return invalid("figure '{}': 'certain' must be true or false", figure.name);
  }
  figure.certain = certain->get<bool>();
  TANDEM_ASSIGN(figure.why, fields.text("why"));
  if (figure.why.size() > kMaxWhyBytes) {
    return invalid("figure '{}': 'why' is longer than {}", figure.name, kMaxWhyBytes);
  }
  return figure;
}

// Files of older programs have no figures.
Result<std::vector<FigureSpread>> read_figures(const JsonFields<Json>& fields) {
  std::vector<FigureSpread> figures;
  if (fields.find("figures") == nullptr) return figures;
  TANDEM_ASSIGN(const Json* list, required_list(fields, "figures", cost_fields().size() + 1));
  for (const Json& entry : *list) {
    TANDEM_ASSIGN(FigureSpread figure, read_figure(entry));
    if (std::ranges::count(figures, figure.name, &FigureSpread::name) != 0) {
      return invalid("figures: '{}' is there twice", figure.name);
    }
    figures.push_back(std::move(figure));
  }
  return figures;
}

Result<ProfileFit> read_fit(const Json& object) {
  if (!object.is_object()) return invalid("fits: an entry is no object");
  const JsonFields<Json> fields(object);
  ProfileFit fit;
  TANDEM_ASSIGN(fit.name, required_text(fields, "name"));
  TANDEM_ASSIGN(fit.formula, required_text(fields, "formula"));
  TANDEM_ASSIGN(const Json* list, required_list(fields, "coefficients", kMaxColumns));
  for (const Json& value : *list) {
    TANDEM_ASSIGN(const double number, finite(value, "coefficients"));
    fit.coefficients.push_back(number);
  }
  const Json* r2 = fields.find("r2");
  if (r2 == nullptr) return invalid("fits: 'r2' is missing");
  TANDEM_ASSIGN(fit.r2, finite(*r2, "r2"));
  return fit;
}

Result<ProfileTable> read_table(const Json& object) {
  if (!object.is_object()) return invalid("tables: an entry is no object");
  const JsonFields<Json> fields(object);
  ProfileTable table;
  TANDEM_ASSIGN(table.name, required_text(fields, "name"));
  TANDEM_ASSIGN(const Json* columns, required_list(fields, "columns", kMaxColumns));
  for (const Json& column : *columns) {
    if (!column.is_string()) return invalid("table '{}': a column without a name", table.name);
    table.columns.push_back(column.get<std::string>());
    if (table.columns.back().size() > kMaxTextBytes) return invalid("a column's name is too long");
  }
  TANDEM_ASSIGN(const Json* rows, required_list(fields, "rows", kMaxRows));
  for (const Json& row : *rows) {
    if (!row.is_array() || row.size() != table.columns.size()) {
      return invalid("table '{}': a row has not {} values", table.name, table.columns.size());
    }
    std::vector<double>& values = table.rows.emplace_back();
    for (const Json& value : row) {
      TANDEM_ASSIGN(const double number, finite(value, table.name));
      values.push_back(number);
    }
  }
  return table;
}

Result<Profile> read_object(const Json& json) {
  const JsonFields<Json> fields(json);
  if (fields.find("tandem_profile") == nullptr) {
    return invalid("'tandem_profile' is missing: not a profile");
  }
  TANDEM_ASSIGN(const std::int64_t version,
                fields.required_integer("tandem_profile", 0, std::int64_t{1} << 40));
  if (version != kProfileVersion) {
    return invalid(
        "a profile of version {}, this program reads {}; measure again with `tandem "
        "profile`",
        version, kProfileVersion);
  }
  Profile profile;
  TANDEM_ASSIGN(profile.date, required_text(fields, "date"));
  TANDEM_ASSIGN(profile.commit, required_text(fields, "commit"));
  TANDEM_ASSIGN(profile.seconds, fields.required_number("seconds", -1e-9, 1e9));
  TANDEM_ASSIGN(const std::int64_t workers, fields.required_integer("workers", 0, 4096));
  profile.workers = static_cast<std::int32_t>(workers);

  TANDEM_ASSIGN(const Json* machine, required_object(fields, "machine"));
  const JsonFields<Json> of_machine(*machine);
  TANDEM_ASSIGN(profile.machine.cpu, required_text(of_machine, "cpu"));
  TANDEM_ASSIGN(profile.machine.cores, of_machine.required_integer("cores", 1, 1 << 20));
  TANDEM_ASSIGN(profile.machine.device, required_text(of_machine, "device"));
  TANDEM_ASSIGN(const std::optional<double> quota, of_machine.number("quota_cpus", 0, 1 << 20));
  profile.machine.quota_cpus = quota.value_or(0);

  TANDEM_ASSIGN(const Json* model, required_object(fields, "model"));
  TANDEM_ASSIGN(profile.model, read_model(*model));
  TANDEM_ASSIGN(const Json* costs, required_object(fields, "costs"));
  TANDEM_ASSIGN(profile.costs, read_costs(*costs));
  TANDEM_ASSIGN(profile.figures, read_figures(fields));
  TANDEM_ASSIGN(profile.others, fields.text("others"));
  if (profile.others.size() > kMaxWhyBytes) {
    return invalid("'others' is longer than {}", kMaxWhyBytes);
  }
  TANDEM_ASSIGN(const Json* fits, required_list(fields, "fits", kMaxTables));
  for (const Json& fit : *fits) {
    TANDEM_ASSIGN(ProfileFit read, read_fit(fit));
    profile.fits.push_back(std::move(read));
  }
  TANDEM_ASSIGN(const Json* tables, required_list(fields, "tables", kMaxTables));
  for (const Json& table : *tables) {
    TANDEM_ASSIGN(ProfileTable read, read_table(table));
    profile.tables.push_back(std::move(read));
  }
  if (fields.find("lessons") != nullptr) {
    TANDEM_ASSIGN(const Json* lessons, required_object(fields, "lessons"));
    Result<EngineLessons> read = parse_lessons(*lessons);
    if (!read) return read.status().with_context("lessons");
    profile.lessons = *std::move(read);
  }
  return profile;
}

}  // namespace

Result<Profile> parse_profile(std::string_view json) {
  TANDEM_ASSIGN(const Json object, parse_json_object<Json>(json));
  return read_object(object);
}

Result<Profile> read_profile(const fs::path& path) {
  TANDEM_ASSIGN(const std::string text, read_text_file(path, kMaxFileBytes));
  Result<Profile> profile = parse_profile(text);
  if (!profile) return profile.status().with_context(path.string());
  return profile;
}

std::string to_json(const Profile& profile) {
  OrderedJson json;
  json["tandem_profile"] = kProfileVersion;
  json["date"] = profile.date;
  json["commit"] = profile.commit;
  json["seconds"] = profile.seconds;
  json["workers"] = profile.workers;
  json["machine"] = {{"cpu", profile.machine.cpu},
                     {"cores", profile.machine.cores},
                     {"device", profile.machine.device}};
  if (profile.machine.quota_cpus > 0) json["machine"]["quota_cpus"] = profile.machine.quota_cpus;
  json["model"] = {{"name", profile.model.name},
                   {"hidden_size", profile.model.hidden_size},
                   {"num_layers", profile.model.num_layers},
                   {"num_heads", profile.model.num_heads},
                   {"num_kv_heads", profile.model.num_kv_heads},
                   {"head_dim", profile.model.head_dim},
                   {"ffn_size", profile.model.ffn_size},
                   {"vocab_size", profile.model.vocab_size},
                   {"dtype", std::string(to_string(profile.model.dtype))},
                   {"devices", profile.model.devices}};
  OrderedJson& costs = json["costs"];
  for (const CostField& field : cost_fields()) costs[field.key] = profile.costs.*field.member;
  costs["tokens_per_core"] = profile.costs.tokens_per_core;
  costs["element_bytes"] = profile.costs.element_bytes;
  if (!profile.figures.empty()) json["figures"] = OrderedJson::array();
  for (const FigureSpread& figure : profile.figures) {
    OrderedJson entry = {{"name", figure.name},
                         {"value", figure.value},
                         {"spread", figure.spread},
                         {"certain", figure.certain}};
    if (!figure.why.empty()) entry["why"] = figure.why;
    json["figures"].push_back(std::move(entry));
  }
  if (!profile.others.empty()) json["others"] = profile.others;
  json["fits"] = OrderedJson::array();
  for (const ProfileFit& fit : profile.fits) {
    json["fits"].push_back({{"name", fit.name},
                            {"formula", fit.formula},
                            {"coefficients", fit.coefficients},
                            {"r2", fit.r2}});
  }
  json["tables"] = OrderedJson::array();
  for (const ProfileTable& table : profile.tables) {
    json["tables"].push_back(
        {{"name", table.name}, {"columns", table.columns}, {"rows", table.rows}});
  }
  if (profile.lessons) json["lessons"] = to_json(*profile.lessons);
  // Invalid UTF-8 is replaced, because names of folders may be any bytes.
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

Status write_profile(const Profile& profile, const fs::path& path) {
  std::error_code failure;
  if (path.has_parent_path()) {
    fs::create_directories(path.parent_path(), failure);
    if (failure) {
      return error(StatusCode::internal, "{}: {}", path.parent_path().string(), failure.message());
    }
  }
  constexpr mode_t kMode = 0644;  // readable by all: a profile is not secret
  return replace_file(path, to_json(profile), kMode);
}

}  // namespace tandem
