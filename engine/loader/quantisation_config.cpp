// The fields of each method's quantization_config.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/loader/foreign_checkpoint.h"
#include "engine/loader/json_fields.h"
#include "engine/loader/quantisation_scheme.h"

namespace tandem {

namespace {
using Fields = JsonFields<OrderedJson>;
}  // namespace

// Fills a QuantisationScheme.
class SchemeReader {
 public:
  static Result<QuantisationScheme> read(const OrderedJson& config) {
    if (!config.is_object()) return invalid("must be an object");
    SchemeReader reader;
    const Status status = reader.read_method(config);
    if (!status) return status.with_context(fmt::format("method '{}'", reader.scheme_.method_));
    return std::move(reader.scheme_);
  }

 private:
  using Scheme = QuantisationScheme;
  using Target = Scheme::Target;
  using Kind = Target::Kind;
  static constexpr std::size_t kMaxTargets = 100'000;
  static constexpr std::int64_t kMaxGroup = 1 << 20;

  Status read_method(const OrderedJson& config) {
    const Fields fields(config);
    TANDEM_ASSIGN(std::string method, fields.text("quant_method"));
    if (method.empty()) method = fields.has("config_groups") ? "compressed-tensors" : "unknown";
    scheme_.method_ = method;
    constexpr std::array<std::pair<std::string_view, Status (SchemeReader::*)(const Fields&)>, 5>
        kMethods = {{{"compressed-tensors", &SchemeReader::read_compressed_tensors},
                     {"fp8", &SchemeReader::read_fp8},
                     {"gptq", &SchemeReader::read_gptq},
                     {"awq", &SchemeReader::read_awq},
                     {"bitsandbytes", &SchemeReader::read_bitsandbytes}}};
    for (const auto& [name, read] : kMethods) {
      if (method == name) return (this->*read)(fields);
    }
    return invalid("is not supported");
  }

  // compressed-tensors

  Status read_compressed_tensors(const Fields& fields) {
    TANDEM_TRY(refuse_filled(fields, "transform_config"));
    TANDEM_TRY(refuse_sparse(fields));
    scheme_.quantises_kv_ = fields.find("kv_cache_scheme") != nullptr;
    TANDEM_TRY(add_targets(fields, "ignore", scheme_.ignored_));
    TANDEM_ASSIGN(const std::string format, fields.text("format"));
    const OrderedJson* const groups = fields.find("config_groups");
    if (groups == nullptr || !groups->is_object()) return invalid("'config_groups' is missing");
    for (const auto& [name, group] : groups->items()) {
      const Status status = read_group(group, format);
      if (!status) return status.with_context(fmt::format("'config_groups', '{}'", name));
    }
    return {};
  }

  static Status refuse_filled(const Fields& fields, std::string_view name) {
    const OrderedJson* const value = fields.find(name);
    if (value == nullptr || (value->is_object() && value->empty())) return {};
    return invalid("'{}' is not supported", name);
  }

  static Status refuse_sparse(const Fields& fields) {
    const OrderedJson* const sparsity = fields.find("sparsity_config");
    if (sparsity == nullptr) return {};
    if (!sparsity->is_object()) return invalid("'sparsity_config' must be an object");
    TANDEM_ASSIGN(const std::string format, Fields(*sparsity).text("format"));
    if (sparsity->empty() || format == "dense") return {};
    return invalid("'sparsity_config' of format '{}' is not supported", format);
  }

  Status read_group(const OrderedJson& group, const std::string& common_format) {
    if (!group.is_object()) return invalid("must be an object");
    const Fields fields(group);
    Scheme::Rule rule;
    TANDEM_TRY(add_targets(fields, "targets", rule.targets));
    if (const OrderedJson* const weights = fields.find("weights")) {
      if (!weights->is_object()) return invalid("'weights' must be an object");
      TANDEM_ASSIGN(std::string format, fields.text("format"));
      if (format.empty()) format = common_format;
      TANDEM_ASSIGN(rule.scheme, read_weights(Fields(*weights), format));
    }
    scheme_.rules_.push_back(std::move(rule));
    return {};
  }

  static Result<ModuleScheme> read_weights(const Fields& fields, const std::string& format) {
    ModuleScheme scheme;
    TANDEM_ASSIGN(const std::int64_t bits, fields.required_integer("num_bits", 1, 64));
    TANDEM_ASSIGN(const std::string type, fields.text("type"));
    TANDEM_ASSIGN(scheme.symmetric, fields.boolean("symmetric", true));
    scheme.bits = static_cast<int>(bits);
    const bool is_float = type == "float";
    const bool is_plain = format == "naive-quantized";
    if (is_float && !scheme.symmetric) return invalid("floats with zero points are not supported");
    if (format == "pack-quantized" && !is_float && (bits == 4 || bits == 8)) {
      scheme.packing = Packing::words;
    } else if ((format == "float-quantized" || is_plain) && is_float && bits == 8) {
      scheme.packing = Packing::fp8;
    } else if ((format == "int-quantized" || is_plain) && !is_float && bits == 8) {
      scheme.packing = Packing::int8;
    } else {
      return invalid("format '{}' with {} bits of type '{}' is not supported", format, bits, type);
    }
    TANDEM_TRY(read_strategy(fields, scheme));
    if (const OrderedJson* const order = fields.find("actorder")) {
      // "group" orders columns; true is its old spelling, and "weight" leaves their order.
      scheme.needs_order = *order == "group" || *order == true;
    }
    return scheme;
  }

  static Status read_strategy(const Fields& fields, ModuleScheme& scheme) {
    TANDEM_ASSIGN(std::string strategy, fields.text("strategy"));
    TANDEM_ASSIGN(const std::optional<std::int64_t> group,
                  fields.integer("group_size", -1, kMaxGroup));
    if (strategy.empty()) {
      strategy = group.value_or(0) > 0 ? "group" : group == -1 ? "channel" : "tensor";
    }
    const bool is_words = scheme.packing == Packing::words;
    if (strategy == "group" && is_words) {
      scheme.scales = ScalesBy::group;
      scheme.group = group.value_or(0);
      return check_group(scheme.group);
    }
    if (strategy == "channel") {
      scheme.scales = ScalesBy::channel;
    } else if (strategy == "tensor" && !is_words) {
      scheme.scales = ScalesBy::tensor;
    } else if (strategy == "block" && scheme.packing == Packing::fp8) {
      scheme.scales = ScalesBy::block;
      return read_block(fields, "block_structure", scheme);
    } else {
      return invalid("strategy '{}' is not supported for this format", strategy);
    }
    return {};
  }

  static Status check_group(std::int64_t group) {
    if (group > 0 && group % 8 == 0) return {};
    return invalid("'group_size' is {}, it must be a multiple of 8", group);
  }

  static Status read_block(const Fields& fields, std::string_view name, ModuleScheme& scheme) {
    const OrderedJson* const block = fields.find(name);
    if (block == nullptr || !block->is_array() || block->size() != 2) {
      return invalid("'{}' must be two numbers", name);
    }
    TANDEM_ASSIGN(scheme.row_block, Fields::as_integer(name, (*block)[0], 1, kMaxGroup));
    TANDEM_ASSIGN(scheme.col_block, Fields::as_integer(name, (*block)[1], 1, kMaxGroup));
    return {};
  }

  // fp8

  Status read_fp8(const Fields& fields) {
    TANDEM_ASSIGN(const std::string format, fields.text("fmt"));
    if (!format.empty() && format != "e4m3") return invalid("'fmt' '{}' is not supported", format);
    ModuleScheme scheme{.packing = Packing::fp8, .bits = 8, .scales = ScalesBy::tensor};
    if (fields.find("weight_block_size") != nullptr) {
      scheme.scales = ScalesBy::block;
      TANDEM_TRY(read_block(fields, "weight_block_size", scheme));
    }
    TANDEM_TRY(add_skipped(fields, "modules_to_not_convert", Kind::path));
    TANDEM_TRY(add_skipped(fields, "ignored_layers", Kind::path));
    return add_for_all(scheme);
  }

  // GPTQ

  // The name of the layout, which stands under either of two keys; by default it is "gptq".
  static Result<std::string> read_gptq_format(const Fields& fields) {
    TANDEM_ASSIGN(const std::string older, fields.text("checkpoint_format"));
    TANDEM_ASSIGN(const std::string newer, fields.text("format"));
    if (!older.empty() && !newer.empty() && older != newer) {
      return invalid("'checkpoint_format' is '{}' and 'format' is '{}'", older, newer);
    }
    const std::string& format = newer.empty() ? older : newer;
    if (format.empty() || format == "gptq" || format == "gptq_v2") return format;
    return invalid("'{}' '{}' is not supported", newer.empty() ? "checkpoint_format" : "format",
                   format);
  }

  Status read_gptq(const Fields& fields) {
    TANDEM_ASSIGN(const std::string format, read_gptq_format(fields));
    TANDEM_ASSIGN(const std::string words, fields.text("pack_dtype"));
    if (!words.empty() && words != "int32")
      return invalid("'pack_dtype' '{}' is not supported", words);
    if (fields.find("bits") == nullptr) return invalid("'bits' is missing");
    ModuleScheme scheme{.packing = Packing::gptq, .group = 128};
    scheme.takes_1_off_zeros = format != "gptq_v2";
    TANDEM_TRY(read_gptq_fields(fields, scheme));
    if (const OrderedJson* const dynamic = fields.find("dynamic")) {
      if (!dynamic->is_object()) return invalid("'dynamic' must be an object");
      for (const auto& [pattern, changes] : dynamic->items()) {
        const Status status = add_dynamic(pattern, changes, scheme);
        if (!status) return status.with_context(fmt::format("'dynamic', '{}'", pattern));
      }
    }
    TANDEM_TRY(add_skipped(fields, "modules_to_not_convert", Kind::path));
    return add_for_all(scheme);
  }

  // Reads over the values that `scheme` has.
  static Status read_gptq_fields(const Fields& fields, ModuleScheme& scheme) {
    TANDEM_ASSIGN(const auto bits, fields.integer("bits", 1, 64));
    scheme.bits = static_cast<int>(bits.value_or(scheme.bits));
    if (scheme.bits != 4 && scheme.bits != 8) {
      return invalid("'bits' is {}; 4 and 8 are supported", scheme.bits);
    }
    TANDEM_ASSIGN(const auto group, fields.integer("group_size", -1, kMaxGroup));
    scheme.group = group.value_or(scheme.group);
    if (scheme.group != -1) TANDEM_TRY(check_group(scheme.group));
    TANDEM_ASSIGN(scheme.needs_order, fields.boolean("desc_act", scheme.needs_order));
    return {};
  }

  // "-:PATTERN" leaves modules as they are, "+:PATTERN" or "PATTERN" changes their fields.
  Status add_dynamic(std::string_view pattern, const OrderedJson& changes,
                     const ModuleScheme& common) {
    Scheme::Rule rule;
    const bool skips = pattern.starts_with("-:");
    if (skips || pattern.starts_with("+:")) pattern.remove_prefix(2);
    TANDEM_TRY(add_regex(pattern, rule.targets));
    if (!skips) {
      if (!changes.is_object()) return invalid("must be an object");
      rule.scheme = common;
      TANDEM_TRY(read_gptq_fields(Fields(changes), *rule.scheme));
    }
    scheme_.rules_.push_back(std::move(rule));
    return {};
  }

  // AWQ

  Status read_awq(const Fields& fields) {
    TANDEM_ASSIGN(std::string version, fields.text("version"));
    std::ranges::transform(version, version.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (!version.empty() && version != "gemm") {
      return invalid("version '{}' is not supported, only 'gemm' is", version);
    }
    TANDEM_ASSIGN(const bool has_zeros, fields.boolean("zero_point", true));
    if (!has_zeros) return invalid("'zero_point' must be true");
    ModuleScheme scheme{.packing = Packing::awq};
    const char* const bits_name = fields.find("bits") != nullptr ? "bits" : "w_bit";
    TANDEM_ASSIGN(const std::int64_t bits, fields.required_integer(bits_name, 1, 64));
    if (bits != 4) return invalid("'{}' is {}; 4 are supported", bits_name, bits);
    const char* const group_name =
        fields.find("group_size") != nullptr ? "group_size" : "q_group_size";
    TANDEM_ASSIGN(scheme.group, fields.required_integer(group_name, -1, kMaxGroup));
    if (scheme.group != -1) TANDEM_TRY(check_group(scheme.group));
    TANDEM_TRY(add_skipped(fields, "modules_to_not_convert", Kind::part));
    return add_for_all(scheme);
  }

  // bitsandbytes

  Status read_bitsandbytes(const Fields& fields) {
    TANDEM_ASSIGN(const bool is_4bit, flag(fields, "load_in_4bit"));
    TANDEM_ASSIGN(const bool is_8bit, flag(fields, "load_in_8bit"));
    if (is_4bit == is_8bit) return invalid("one of 'load_in_4bit' and 'load_in_8bit' must be true");
    ModuleScheme scheme{.packing = Packing::bnb_int8, .bits = 8, .scales = ScalesBy::channel};
    if (is_4bit) {
      scheme = {.packing = Packing::bnb_4bit, .scales = ScalesBy::block};
      TANDEM_ASSIGN(const std::string type, fields.text("bnb_4bit_quant_type"));
      if (!type.empty() && type != "fp4" && type != "nf4") {
        return invalid("'bnb_4bit_quant_type' '{}' is not supported", type);
      }
      scheme.codebook = type == "nf4" ? "nf4" : "fp4";
    }
    TANDEM_TRY(add_skipped(fields, "llm_int8_skip_modules", Kind::path));
    return add_for_all(scheme);
  }

  // transformers writes some flags with an underscore, too.
  static Result<bool> flag(const Fields& fields, const std::string& name) {
    return fields.boolean(fields.find(name) != nullptr ? name : "_" + name, false);
  }

  // Shared

  Status add_for_all(const ModuleScheme& scheme) {
    scheme_.rules_.push_back({});
    scheme_.rules_.back().targets.push_back({});
    scheme_.rules_.back().scheme = scheme;
    return {};
  }

  // Matches at a name's start, as Python's re.match.
  static Status add_regex(std::string_view pattern, std::vector<Target>& targets) {
    TANDEM_ASSIGN(PythonRegex regex,
                  PythonRegex::compile_full(fmt::format("(?:{})(?s:.*)", pattern)));
    targets.push_back({Kind::regex, std::string(pattern), std::move(regex)});
    return {};
  }

  static Status add_targets(const Fields& fields, std::string_view name,
                            std::vector<Target>& targets) {
    return each_text(fields, name, [&](const std::string& text) -> Status {
      constexpr std::string_view kRegex = "re:";
      if (text.starts_with(kRegex)) return add_regex(text.substr(kRegex.size()), targets);
      const bool is_type = text == "Linear" || text == "Embedding";
      targets.push_back({is_type ? Kind::type : Kind::whole, text});
      return {};
    });
  }

  Status add_skipped(const Fields& fields, std::string_view name, Kind kind) {
    return each_text(fields, name, [&](const std::string& text) {
      if (!text.empty()) scheme_.ignored_.push_back({kind, text});
      return Status();
    });
  }

  template <typename Use>
  static Status each_text(const Fields& fields, std::string_view name, const Use& use) {
    const OrderedJson* const list = fields.find(name);
    if (list == nullptr) return {};
    if (!list->is_array() || list->size() > kMaxTargets) {
      return invalid("'{}' must be a list of names", name);
    }
    for (const OrderedJson& each : *list) {
      if (!each.is_string()) return invalid("'{}' must be a list of names", name);
      const Status status = use(each.get_ref<const std::string&>());
      if (!status) return status.with_context(fmt::format("'{}'", name));
    }
    return {};
  }

  Scheme scheme_;
};

Result<std::optional<QuantisationScheme>> QuantisationScheme::read(std::string_view config_json) {
  constexpr std::array kNames = {"quantization_config", "compression_config"};
  // Most have neither, and need no second tree.
  if (std::ranges::none_of(kNames, [&](const char* name) {
        return config_json.find(name) != std::string_view::npos;
      })) {
    return std::optional<QuantisationScheme>();
  }
  TANDEM_ASSIGN(const OrderedJson json, parse_json_object<OrderedJson>(config_json));
  const OrderedJson* place = &json;
  const auto text = json.find("text_config");
  for (int i = 0; i < 2; ++i) {
    for (const char* const name : kNames) {
      const OrderedJson* const config = Fields(*place).find(name);
      if (config == nullptr) continue;
      Result<QuantisationScheme> scheme = SchemeReader::read(*config);
      if (scheme) return std::optional(std::move(scheme).value());
      return invalid("the weights are quantised ('{}'): {}. {}", name, scheme.status().message(),
                     kTakeUnquantised);
    }
    if (text == json.end() || !text->is_object()) break;
    place = &*text;
  }
  return std::optional<QuantisationScheme>();
}

}  // namespace tandem
