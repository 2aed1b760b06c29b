#include "engine/model/weights/model_weights.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "engine/model/weights/source_names.h"

namespace tandem {
namespace {

// The forms of the weights that the device keeps packed; others are converted.
WeightForms forms_for(const WeightSource& source, const Device& device, DType dtype) {
  return [&source, &device, dtype](std::string_view name, std::span<const std::int64_t> shape,
                                   std::array<std::int64_t, 2> own) {
    std::optional<PackedForm> packed = source.form_of(name, shape);
    if (packed && !device.keeps_packed(packed->form, own[0], own[1], dtype)) packed.reset();
    return packed;
  };
}

// The numbers by which layers multiply the residual, which the CPU passes to the operations.
Status read_output_scales(const ModelSpec& spec, const WeightSource& source, WeightLayout& layout) {
  for (std::int64_t i = 0; i < spec.num_layers(); ++i) {
    if (!spec.layer(i).output_scale) continue;
    const std::string name = std::string(spec.names.root) +
                             fmt::format(fmt::runtime(spec.names.layer), i) +
                             std::string(spec.names.output_scale);
    constexpr std::int64_t kOne[] = {1};
    float& scale = layout.layers[static_cast<std::size_t>(i)].output_scale;
    TANDEM_TRY(source.read(name, kOne, DType::f32, &scale));
  }
  return {};
}

// Lets the device bring packed weights into the layout that its products read fastest.
Status arrange(const ModelSpec& spec, Device& device, WeightLayout& layout) {
  std::vector<Weight*> packed;
  const auto add = [&](Weight& weight) {
    if (!weight.is_dense()) packed.push_back(&weight);
  };
  add(layout.embedding);
  add(layout.layer_inputs.table);
  std::vector<WeightStack*> stacks = {&layout.layer_inputs.projection};
  for (LayerWeights& layer : layout.layers) {
    for (WeightStack* const stack : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down,
                                     &layer.input_gate, &layer.input_projection}) {
      stacks.push_back(stack);
    }
  }
  for (WeightStack* const stack : stacks) {
    for (Weight& part : stack->parts) add(part);
  }
  if (spec.has_own_head()) add(layout.head);
  if (packed.empty()) return {};
  TANDEM_ASSIGN(const auto stream, device.create_stream("weights"));
  for (Weight* const weight : packed) TANDEM_TRY(stream->arrange(*weight));
  if (!spec.has_own_head()) layout.head = layout.embedding;
  return {};
}

// The ranks after the first leave out biases that only it adds, so all of the model's tensors
// count.
Status check_all_used(const WeightSource& source, const ModelSpec& spec) {
  std::set<std::string, std::less<>> used;
  for (WeightPiece& piece : lay_out_weights(spec, {}, DType::bf16, nullptr).pieces) {
    if (!piece.name.empty()) used.insert(std::move(piece.name));
  }
  return source.check_all_used(used);
}

}  // namespace

std::size_t ModelWeights::bytes_needed(const ModelSpec& spec, Shard shard, DType dtype) {
  return lay_out_weights(spec, shard, dtype, nullptr).bytes;
}

std::size_t ModelWeights::bytes_needed(const ModelSpec& shape, Shard shard, DType dtype,
                                       const WeightSource& source, const Device& device) {
  ModelSpec spec = shape;
  spec.names = names_in(source, spec.names);
  return lay_out_weights(spec, shard, dtype, nullptr, forms_for(source, device, dtype)).bytes;
}

Result<ModelWeights> ModelWeights::load(const ModelSpec& shape, Shard shard,
                                        const WeightSource& source, DType dtype, Device& device,
                                        const LoadProgress& progress) {
  ModelSpec spec = shape;
  spec.names = names_in(source, spec.names);
  // GGUF files have no root, and neither have models that were saved without a head.
  if (shard.rank == 0 && !spec.names.root.empty() && spec.names.root != shape.names.root) {
    log::info("the text model of the checkpoint is loaded; its other tensors are left out");
  }
  TANDEM_TRY(check_all_used(source, spec));
  ModelWeights weights;
  const WeightForms forms = forms_for(source, device, dtype);
  const std::size_t total = lay_out_weights(spec, shard, dtype, nullptr, forms).bytes;
  TANDEM_ASSIGN(weights.buffer_, device.allocate(total, "the model's weights"));
  weights.layout_ = lay_out_weights(spec, shard, dtype, weights.buffer_.data(), forms);
  TANDEM_TRY(read_output_scales(spec, source, weights.layout_));
  TANDEM_TRY(
      read_weights(source, weights.layout_, weights.buffer_.host_visible(), device, progress));
  weights.layout_.pieces.clear();
  weights.layout_.shared.clear();
  TANDEM_TRY(arrange(spec, device, weights.layout_));
  return weights;
}

}  // namespace tandem
