// A recording: all steps of an engine since its start, as passed to its executor, so that they can
// be run again without the engine (replay.h).
//
//   file     "TANDEMST" | u32 version | u32 0 | records, `settings` first, `end` last
//   record   u32 kind | u32 0 | u64 bytes | u64 FNV-1a of the payload | payload
//   settings of the model and of the executor: RecordedSettings
//   adapter  a slot holds this adapter from now on: RecordedAdapter
//   plan     a step was enqueued: StepPlan
//   masks    the masks of the last plan if it uses any, before the next plan: RecordedMasks. Absent
//            if they were never supplied because the step before had failed
//   result   the oldest step without a result has ended: RecordedResult
//   end      u64 number of records before it
//
// Numbers are stored as in memory, little-endian; a list is its length (u64) and its items, a text
// is a list of bytes. Fields are in the order of the structs below, a plan's lists before its
// entries. An entry stores only the lengths of its parts of the lists, which follow one another. A
// reader trusts nothing: lengths are checked against the remaining bytes, and a plan is checked
// before it is run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/ids/slot_id.h"
#include "base/ids/token_id.h"
#include "engine/executor/step_plan.h"
#include "engine/model/model.h"
#include "engine/model/step/step_batch.h"

namespace tandem {

// The origin of the weights.
struct ModelSource {
  std::string path;         // the checkpoint's folder, or the name of a shape
  std::string load_format;  // "auto", or "dummy": random weights from `seed`
  std::int64_t seed = 0;
  std::string weights = "bf16";  // the format of random weights
};

// Selects whether and where an engine records.
struct RecordingOptions {
  std::string path;  // of the file; empty: no recording
  ModelSource source;
};

struct RecordedSettings {
  ModelSource source;
  DType dtype = DType::f32;
  // The main dimensions of the model's shape, enough to detect another model.
  std::int64_t hidden_size = 0, num_layers = 0, vocab_size = 0;
  ModelLimits model;
  StepLimits step;
  std::int32_t num_pages = 0;
  std::int32_t page_tokens = 0;
  std::int32_t max_graph_batch = 0;
};

// Visits every setting in the order of the file, by reference.
template <typename Settings, typename Visit>
void each_setting(Settings& s, const Visit& visit) {
  visit(s.source.path);
  visit(s.source.load_format);
  visit(s.source.seed);
  visit(s.source.weights);
  visit(s.dtype);
  visit(s.hidden_size);
  visit(s.num_layers);
  visit(s.vocab_size);
  visit(s.model.max_rows);
  visit(s.model.max_samples);
  visit(s.model.max_positions);
  visit(s.model.max_lora_rank);
  visit(s.model.max_added_tokens);
  visit(s.step.max_rows);
  visit(s.step.max_sequences);
  visit(s.step.max_samples);
  visit(s.step.max_pages);
  visit(s.step.max_history);
  visit(s.step.max_biases);
  visit(s.num_pages);
  visit(s.page_tokens);
  visit(s.max_graph_batch);
}

struct RecordedAdapter {
  SlotId slot;
  std::int32_t rank = 0;  // maximum over its modules
  std::string digest;
  std::string path;  // of its folder; empty if it had none
};

struct RecordedMasks {
  // [StepPlan::num_masks, mask_words(columns)], of as many columns as the step has logits: those of
  // the base's tokens, and ModelLimits::max_added_tokens more if its adapters may have tokens.
  std::vector<std::uint32_t> words;
};

struct RecordedResult {
  bool ok = false;
  std::vector<TokenId> tokens;  // in the order of the plan's samples; empty if not ok
  // One item per entry of the plan: 1 if the entry's result was dropped (its sequence had ended, or
  // workers had left some of its rows without an answer), so that its correct samples are unknown.
  std::vector<std::uint8_t> is_stale;
};

}  // namespace tandem
