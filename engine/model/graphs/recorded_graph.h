// A graph of the operations that a function enqueues for a step, with the address of the step's
// metadata.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "engine/model/step/step_batch.h"
#include "gpu/device.h"

namespace tandem {

struct RecordedGraph {
  std::unique_ptr<Graph> graph;
  const std::int32_t* ids;  // the addresses of its metadata: a launch with others is a bug
  const std::int32_t* page_ids;

  Graph& graph_for(const StepInput& input) const {
    TANDEM_CHECK(ids == input.ids && page_ids == input.page_ids,
                 "the metadata of {} rows has moved", input.num_rows);
    return *graph;
  }
};

// Records the operations without running them. An exception of `enqueue` ends the recording and is
// rethrown: otherwise later operations would be recorded instead of run.
inline Result<RecordedGraph> record_graph(Stream& stream, const StepInput& input,
                                          const std::function<void()>& enqueue) {
  TANDEM_TRY(stream.begin_recording());
  try {
    enqueue();
  } catch (...) {
    (void)stream.end_recording();
    throw;
  }
  TANDEM_ASSIGN(std::unique_ptr<Graph> graph, stream.end_recording());
  return RecordedGraph{std::move(graph), input.ids, input.page_ids};
}

}  // namespace tandem
