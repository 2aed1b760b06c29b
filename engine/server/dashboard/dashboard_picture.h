// The data of an engine's dashboard (base/dashboard/dashboard_feed.h): the head has load, memory,
// latencies and workers; the tables are the adapters, by name, and the last cold starts, by number.
#pragma once

#include "base/dashboard/dashboard_feed.h"
#include "base/dashboard/latency_history.h"
#include "engine/service/service.h"
#include "scheduler/cluster/report/engine_report.h"

namespace tandem {

struct DashboardSubject {
  const EngineIdentity& engine;
  const GenerationService& service;
  const LatencyHistory& latencies;
  bool draining = false;
  bool may_load = false;  // adapters may be loaded and unloaded over REST
};

// May be called on any thread.
DashboardPicture engine_picture(const DashboardSubject& subject);

}  // namespace tandem
