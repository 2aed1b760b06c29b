#include "tools/bench/papers/punica.h"

namespace tandem::papers {

std::vector<Experiment> punica_experiments() {
  return {
      {.id = "punica-5",
       .figure = "Punica, section 5.3 and figure 5",
       .claim = "to recompute a request's KV costs no more than to move it",
       .setting = "migration of a request: cancelled here, prefilled there",
       .theirs = "\"equal to or better in most cases\" after vLLM's figures; A100",
       .ground = Ground::counted,
       .how = "one prefill by the cost models against KV bytes over the link, to and from the host",
       .x_label = "tokens of the request",
       .y_label = "ms",
       .run = punica_migration,
       .log_x = true},
      {.id = "punica-12",
       .figure = "Punica, figure 12",
       .claim = "a 70B model on several GPUs serves all popularities alike",
       .setting = "70B, 8 A100, tensor parallel, batch 32",
       .theirs =
           "441 to 446 tokens/s whatever the popularity; vLLM 21 to 25 with several adapters, "
           "457 without",
       .ground = Ground::device,
       .how = "needs several GPUs with 140 GB for the weights; docs/benchmarks.md has two H200 "
              "with and without 32 distinct adapters (T4)",
       .x_label = "popularity",
       .y_label = "tokens/s"},
      {.id = "punica-13",
       .figure = "Punica, figure 13",
       .claim =
           "requests gather on few engines, whose batches are full, and the others can be freed",
       .setting = "16 A100 40 GB, 7B, Zipf 1.5, a rate that rises and falls for an hour",
       .theirs = "busy GPUs run at the largest batch, idle ones stay idle (plot)",
       .how = "16 simulated A100, ShareGPT lengths, the peak at 80 % of the capacity",
       .x_label = "s",
       .y_label = "engines in use",
       .run = punica_cluster},
  };
}

}  // namespace tandem::papers
