// A recording: the steps of an engine from its start, as its executor was given them, so that they
// can be run again without it (replay.h).
//
//   file     "TANDEMST" | u32 version | u32 0 | records, `settings` first, `end` last
//   record   u32 kind | u32 0 | u64 bytes | u64 FNV-1a of the payload | payload
//   settings of the model and of the executor: RecordedSettings
//   adapter  from now on a slot holds it: RecordedAdapter
//   plan     a step was enqueued: StepPlan
//   masks    of the plan before it, if that names any: RecordedMasks; before the next plan. Missing
//            where they were never given, as the step before had failed
//   result   the oldest step without one has ended: RecordedResult
//   end      u64 how many records come before it
//
// Numbers lie as they do in memory, little-endian; a list is its length (u64) and its items, a text
// a list of bytes. Fields come in the order of the structs below, a plan's lists before its entries
// (by the lengths of whose parts they are cut: the parts follow one another). A reader believes
// nothing: lengths are held against what is left, and a plan is checked before it is run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/slot_id.h"
#include "base/token_id.h"
#include "engine/executor/step_plan.h"
#include "engine/model/model.h"
#include "engine/model/step/step_batch.h"

namespace tandem {

// Where the weights came from.
struct ModelSource {
  std::string path;         // of the checkpoint's folder, or a shape's name
  std::string load_format;  // "auto", or "dummy": weights from `seed`
  std::int64_t seed = 0;
};

// What an engine is told to record.
struct RecordingOptions {
  std::string path;  // of the file; empty: nothing
  ModelSource source;
};

struct RecordedSettings {
  ModelSource source;
  DType dtype = DType::f32;
  // Of the model's shape, enough to notice another one.
  std::int64_t hidden_size = 0, num_layers = 0, vocab_size = 0;
  ModelLimits model;
  StepLimits step;
  std::int32_t num_pages = 0;
  std::int32_t page_tokens = 0;
  std::int32_t max_graph_batch = 0;
};

// Every setting in the order of the file; `visit` takes each by reference.
template <typename Settings, typename Visit>
void each_setting(Settings& s, const Visit& visit) {
  visit(s.source.path);
  visit(s.source.load_format);
  visit(s.source.seed);
  visit(s.dtype);
  visit(s.hidden_size);
  visit(s.num_layers);
  visit(s.vocab_size);
  visit(s.model.max_rows);
  visit(s.model.max_samples);
  visit(s.model.max_positions);
  visit(s.model.max_lora_rank);
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
  std::int32_t rank = 0;  // the largest of its modules
  std::string digest;
  std::string path;  // of its folder; empty: it had none
};

struct RecordedMasks {
  std::vector<std::uint32_t> words;  // [StepPlan::num_masks, mask_words(vocab)]
};

struct RecordedResult {
  bool ok = false;
  std::vector<TokenId> tokens;  // by the plan's samples; none if not ok
  // By the plan's entries: 1 if nothing came of it (its sequence had ended, or workers had left
  // rows of it without an answer), so that nobody knows what it should have sampled.
  std::vector<std::uint8_t> is_void;
};

}  // namespace tandem
