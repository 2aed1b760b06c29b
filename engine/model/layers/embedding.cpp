#include "engine/model/layers/embedding.h"

#include "engine/model/layers/residual.h"

namespace tandem {

void embed(LayerStep& step, const ModelWeights& weights, const TensorView& first_norm) {
  if (step.part.is_whole()) {
    step.stream.embed({weights.embedding(), step.input.ids, step.work.residual});
    to_residual(step, {}, false, first_norm);
    return;
  }
  EmbedArgs args{weights.embedding(), step.input.ids, step.shared.embedded};
  args.first_id = static_cast<std::int32_t>(step.part.vocab.first);
  args.vocab = static_cast<std::int32_t>(step.part.spec.vocab_size);
  step.stream.embed(args);
  to_residual(step, step.shared.embedded, false, first_norm);
}

void head(LayerStep& step, const ModelWeights& weights, const TensorView& sampled) {
  const std::int32_t rows = step.input.num_logits;
  if (!step.drops_rows) {
    step.stream.gather_rows({step.work.residual, step.input.sample_rows, sampled});
  }
  const TensorView normed(step.work.x.data, step.part.dtype, {rows, step.part.spec.hidden_size});
  step.stream.rms_norm({sampled, weights.final_norm(), step.part.norm_eps(), normed});
  const TensorView logits = step.work.logits.slice_rows(0, rows);
  if (step.part.is_whole()) {
    step.stream.gemm({normed, weights.head(), {}, logits});
    return;
  }
  const TensorView part = step.shared.logits.slice_rows(0, rows);
  step.stream.gemm({normed, weights.head(), {}, part});
  step.stream.all_gather({step.part.communicator, part, logits});
}

}  // namespace tandem
