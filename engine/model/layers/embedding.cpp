#include "engine/model/layers/embedding.h"

#include <limits>

#include "engine/model/layers/adapted_linear.h"
#include "engine/model/layers/adapted_norm.h"

namespace tandem {

void embed(LayerStep& step, const ModelWeights& weights, const BlockInput& first) {
  const ModelPart& part = step.part;
  EmbedArgs args{weights.embedding(), step.input.ids,
                 part.is_whole() ? step.work.residual : step.shared.embedded};
  args.scale = static_cast<float>(part.spec.embedding_multiplier / part.residual_multiplier());
  args.first_id = static_cast<std::int32_t>(part.vocab.first);
  args.vocab = static_cast<std::int32_t>(part.spec.vocab_size) + part.max_added_tokens;
  step.stream.embed(args);
  if (!adapts(step, Site::embedding) && !adapts(step, Site::embedding_tokens) &&
      !adapts(step, Site::whole_embedding)) {
    return begin_blocks(step, args.out, first);
  }
  begin_blocks(step, args.out, {{}, false});
  adapt_embedding(step, args.scale);
  make_input(step, first);
}

void head(LayerStep& step, const ModelWeights& weights, const TensorView& sampled) {
  const std::int32_t rows = step.input.num_logits;
  if (!step.drops_rows) {
    step.stream.gather_rows({step.work.residual, step.input.sample_rows, sampled});
  }
  const TensorView normed(step.work.x.data, step.part.dtype, {rows, step.part.spec.hidden_size});
  const std::int64_t last = step.part.spec.num_layers() - 1;
  run(step, {weights.final_norm(), last, Site::final_norm},
      {sampled, {}, step.part.residual_eps(), normed, step.part.spec.norm_centred},
      step.input.sampled_slots);
  const ModelSpec& spec = step.part.spec;
  const TensorView logits = step.work.logits.slice_rows(0, rows);
  const TensorView of_base = logits.slice_cols(0, spec.vocab_size);
  if (step.part.is_whole()) {
    step.stream.gemm({normed, weights.head(), {}, of_base});
  } else {
    const TensorView part = step.shared.logits.slice_rows(0, rows);
    step.stream.gemm({normed, weights.head(), {}, part});
    step.stream.all_gather({step.part.communicator, part, of_base});
  }
  if (const std::int64_t added = logits.cols() - of_base.cols(); added > 0) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    step.stream.scale_logits({logits.slice_cols(of_base.cols(), added), kNan, 0});
  }
  adapt_head(step, normed, logits);
  if (spec.logits_multiplier == 1 && spec.logits_softcap == 0) return;
  step.stream.scale_logits({logits, static_cast<float>(spec.logits_multiplier),
                            static_cast<float>(spec.logits_softcap)});
}

}  // namespace tandem
