#include "engine/model/families/rotary_fields.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr std::int64_t kMaxPositions = 1 << 28;
constexpr std::string_view kOriginal = "original_max_position_embeddings";

void read_llama3(CheckpointConfig& fields, RotarySpec& rotary) {
  RotarySpec::Llama3Scaling scaling;
  scaling.factor = fields.number("factor", 0, kMaxFactor);
  scaling.low_freq_factor = fields.number("low_freq_factor", 0, kMaxFactor);
  scaling.high_freq_factor = fields.number("high_freq_factor", 0, kMaxFactor);
  scaling.original_max_position_embeddings =
      fields.number("original_max_position_embeddings", 0, kMaxPositions);
  if (fields.status().ok() && scaling.high_freq_factor <= scaling.low_freq_factor) {
    fields.fail(invalid("'high_freq_factor' {} must be above 'low_freq_factor' {}",
                        scaling.high_freq_factor, scaling.low_freq_factor));
  }
  rotary.llama3 = scaling;
}

// YaRN's correction of the attention's temperature (Peng et al. 2023, section 3.4).
double yarn_attention_factor(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

void read_yarn(CheckpointConfig& fields, std::int64_t max_positions, RotarySpec& rotary) {
  RotarySpec::YarnScaling scaling;
  scaling.factor = fields.number("factor", 0, kMaxFactor);
  scaling.beta_fast = fields.maybe_number("beta_fast", 0, kMaxFactor).value_or(32);
  scaling.beta_slow = fields.maybe_number("beta_slow", 0, kMaxFactor).value_or(1);
  scaling.original_max_position_embeddings =
      fields.maybe_number("original_max_position_embeddings", 0, kMaxPositions)
          .value_or(static_cast<double>(max_positions));
  scaling.truncate = fields.flag("truncate", true);
  const auto attention_factor = fields.maybe_number("attention_factor", 0, kMaxFactor);
  const auto mscale = fields.maybe_number("mscale", 0, kMaxFactor);
  const auto all_dims = fields.maybe_number("mscale_all_dim", 0, kMaxFactor);
  if (attention_factor) {
    rotary.attention_factor = *attention_factor;
  } else if (mscale && all_dims) {
    rotary.attention_factor = yarn_attention_factor(scaling.factor, *mscale) /
                              yarn_attention_factor(scaling.factor, *all_dims);
  } else {
    rotary.attention_factor = yarn_attention_factor(scaling.factor, 1);
  }
  if (fields.status().ok() && rotary.theta <= 1) {
    fields.fail(invalid("'rope_theta' is {}; yarn needs one above 1", rotary.theta));
  }
  rotary.yarn = scaling;
}

void read_dynamic(CheckpointConfig& fields, std::int64_t max_positions, RotarySpec& rotary) {
  RotarySpec::DynamicScaling scaling;
  scaling.factor = fields.number("factor", 0, kMaxFactor);
  scaling.original = max_positions;
  const auto original = fields.maybe_integer(kOriginal, 1, kMaxPositions);
  if (original && *original != max_positions) {
    fields.fail(
        invalid("'{}' is {}, and 'max_position_embeddings' {}; dynamic scaling begins at "
                "the latter",
                kOriginal, *original, max_positions));
  }
  if (fields.status().ok() && scaling.factor < 1) {
    fields.fail(invalid("'factor' is {}; dynamic scaling needs one of 1 or more", scaling.factor));
  }
  if (static_cast<double>(max_positions) * scaling.factor > kMaxPositions) {
    fields.fail(invalid("'factor' {} is too large", scaling.factor));
  }
  rotary.dynamic = scaling;
}

std::vector<double> read_factors(CheckpointConfig& fields, std::string_view name) {
  std::vector<double> factors;
  const Json* const list = fields.find(name);
  if (list == nullptr || !list->is_array()) {
    fields.fail(invalid("'{}' must be a list of numbers", name));
    return factors;
  }
  for (const Json& each : *list) {
    const double factor = each.is_number() ? each.get<double>() : 0;
    if (!(factor > 0 && factor <= kMaxFactor)) {
      fields.fail(invalid("'{}' holds {}, no number above 0", name, each.dump()));
      break;
    }
    factors.push_back(factor);
  }
  return factors;
}

// `original`: the config's own field of this name, which Phi-3 has beside the object.
void read_longrope(CheckpointConfig& fields, std::int64_t max_positions,
                   std::optional<std::int64_t> original, RotarySpec& rotary) {
  RotarySpec::LongRopeScaling scaling;
  scaling.short_factors = read_factors(fields, "short_factor");
  scaling.long_factors = read_factors(fields, "long_factor");
  const auto own = fields.maybe_integer(kOriginal, 2, kMaxPositions);
  if (own && original && *own != *original) {
    fields.fail(invalid("'{}' is {} here and {} in the config", kOriginal, *own, *original));
  }
  if (!own && !original) fields.fail(invalid("'{}' is missing", kOriginal));
  for (const std::string_view name : {"short_mscale", "long_mscale"}) {
    if (fields.find(name) != nullptr) fields.fail(invalid("'{}' is not supported", name));
  }
  const auto factor = fields.maybe_number("factor", 0, kMaxFactor);
  const auto attention_factor = fields.maybe_number("attention_factor", 0, kMaxFactor);
  if (!fields.status().ok()) return;
  scaling.original = own.value_or(original.value_or(0));
  const auto before = static_cast<double>(scaling.original);
  const double ratio = static_cast<double>(max_positions) / before;
  if (factor && std::abs(*factor - ratio) > 1e-6 * ratio) {
    fields.fail(invalid("'factor' is {}, and the context grows by {}", *factor, ratio));
  }
  rotary.attention_factor =
      attention_factor.value_or(ratio <= 1 ? 1 : std::sqrt(1 + std::log(ratio) / std::log(before)));
  rotary.longrope = std::move(scaling);
}

// Checks that LongRoPE has a factor for each pair that rotates.
void check_longrope(CheckpointConfig& config, const RotarySpec& rotary, std::int64_t head_dim) {
  const std::int64_t pairs = rotary.pairs(head_dim);
  for (const auto* const factors :
       {&rotary.longrope->short_factors, &rotary.longrope->long_factors}) {
    if (static_cast<std::int64_t>(factors->size()) == pairs) continue;
    config.fail(invalid("longrope has {} factors for {} pairs", factors->size(), pairs));
  }
}

// `object`: rope_parameters or rope_scaling, or what they say of one kind of layers. `original`: as
// read_longrope's.
Status read_object(const Json& object, const RotaryFields& defaults,
                   std::optional<std::int64_t> original, RotarySpec& rotary,
                   std::optional<double>& partial) {
  if (!object.is_object()) return invalid("must be an object");
  CheckpointConfig fields(object);
  const auto theta = fields.maybe_number("rope_theta", 0, kMaxTheta);
  if (theta) rotary.theta = *theta;
  if (const auto own = fields.maybe_number("partial_rotary_factor", 0, 1)) partial = own;
  std::string type = fields.text("rope_type");
  if (type.empty()) type = fields.text("type");  // the name before transformers 4.43
  TANDEM_TRY(fields.status());
  if (type.empty() && !theta && !object.empty()) return invalid("'rope_type' is missing");
  if (type == "linear") {
    rotary.linear_factor = fields.number("factor", 0, kMaxFactor);
  } else if (type == "llama3") {
    read_llama3(fields, rotary);
  } else if (type == "yarn") {
    read_yarn(fields, defaults.max_positions, rotary);
  } else if (type == "proportional" && defaults.proportional) {
    rotary.linear_factor = fields.maybe_number("factor", 0, kMaxFactor).value_or(1);
    const double part = partial.value_or(1) * static_cast<double>(defaults.head_dim) / 2;
    rotary.turning = static_cast<std::int64_t>(part);
    partial = 1;  // all pairs of a head rotate, most of them by nothing
    if (rotary.turning < 1) return invalid("'partial_rotary_factor' leaves no pair that turns");
  } else if (type == "dynamic") {
    read_dynamic(fields, defaults.max_positions, rotary);
  } else if (type == "longrope" || type == "su") {  // the name before transformers 4.42
    read_longrope(fields, defaults.max_positions, original, rotary);
  } else if (!type.empty() && type != "default") {
    return invalid(
        "rope type '{}' is not supported; 'default', 'linear', 'llama3', 'yarn', 'dynamic' and "
        "'longrope' are",
        type);
  }
  return fields.status();
}

}  // namespace

RotarySpec read_rotary(CheckpointConfig& config, const RotaryFields& fields) {
  RotarySpec rotary;
  rotary.theta = config.maybe_number(fields.theta_name, 0, kMaxTheta).value_or(fields.theta);
  auto partial = config.maybe_number("partial_rotary_factor", 0, 1);
  const auto original = config.maybe_integer(kOriginal, 2, kMaxPositions);
  const Json* object = config.find("rope_parameters");
  const Json* const scaling = config.find("rope_scaling");
  if (object != nullptr && scaling != nullptr && *object != *scaling) {
    config.fail(invalid("'rope_parameters' and 'rope_scaling' contradict each other; keep one"));
  }
  std::string_view name = "rope_parameters";
  if (object == nullptr && fields.scaled) {
    object = scaling;
    name = "rope_scaling";
  }
  if (object != nullptr && object->is_object()) {
    const auto own = object->find(fields.layer_type);
    if (own != object->end() && own->is_object()) {
      object = &*own;
    } else if (!fields.scaled) {
      object = nullptr;  // it speaks of the other kind of layers
    }
  }
  if (object != nullptr && config.status().ok()) {
    const Status status = read_object(*object, fields, original, rotary, partial);
    if (!status.ok()) config.fail(status.with_context(name));
  }
  const double share = partial.value_or(fields.partial.value_or(1));
  if (share < 1 && !fields.partial) {
    config.fail(invalid("'partial_rotary_factor' {} is not supported for this family", share));
  } else if (share < 1) {
    rotary.rotated = static_cast<std::int64_t>(static_cast<double>(fields.head_dim) * share);
    if (rotary.rotated < 2 || rotary.rotated % 2 != 0) {
      config.fail(
          invalid("'partial_rotary_factor' {} rotates {} elements of a head of {}; an even "
                  "number above 0 is needed",
                  share, rotary.rotated, fields.head_dim));
    }
  }
  if (rotary.longrope) check_longrope(config, rotary, fields.head_dim);
  return rotary;
}

}  // namespace tandem
