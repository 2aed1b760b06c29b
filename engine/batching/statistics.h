// What the parts of the engine count, as EngineStats tells it.
#pragma once

#include "engine/adapters/adapter_store.h"
#include "engine/batching/batch/continuous_batcher.h"
#include "engine/executor/executor.h"
#include "engine/memory/page_pool.h"
#include "engine/service/service.h"

namespace tandem {

// Fills in what these know; the rest of `stats` stays. Engine thread.
void count_sequences(const ContinuousBatcher& scheduler, EngineStats& stats);
void count_pages(const PagePool& pool, EngineStats& stats);
void count_steps(const Executor& executor, EngineStats& stats);
void count_adapters(const AdapterStore& store, Executor& executor, EngineStats& stats);

// Workers come and go while the engine has nothing to do, too. Any thread.
void count_workers(const Handoff& handoff, EngineStats& stats);

// Any thread.
AdapterInfo describe(const ServedAdapter& adapter);
AdapterPresence presence_of(const AdapterLease& adapter);
LearnedCosts describe(const HandoffLearning& learning);

}  // namespace tandem
