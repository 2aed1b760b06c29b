// Collects the counts of the engine's parts in EngineStats.
#pragma once

#include "engine/adapters/adapter_store.h"
#include "engine/batching/batch/continuous_batcher.h"
#include "engine/executor/executor.h"
#include "engine/memory/page_pool.h"
#include "engine/service/service.h"

namespace tandem {

// Fill in the fields that these objects count, and leave the others. Engine thread.
void count_sequences(const ContinuousBatcher& scheduler, EngineStats& stats);
void count_pages(const PagePool& pool, EngineStats& stats);
void count_steps(const Executor& executor, EngineStats& stats);
void count_adapters(const AdapterStore& store, Executor& executor, EngineStats& stats);

// Separate from the above, as workers come and go while the engine is idle, too. Any thread.
void count_workers(const Handoff& handoff, EngineStats& stats);

// Any thread.
AdapterInfo describe(const ServedAdapter& adapter);
AdapterPresence presence_of(const AdapterLease& adapter);
LearnedCosts describe(const HandoffLearning& learning);

}  // namespace tandem
