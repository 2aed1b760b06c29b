// An engine as its dashboard shows it (base/dashboard/dashboard_feed.h): the head has its load, its
// memory, latencies and workers; the tables are the adapters, by name, and the last cold starts, by
// number.
#pragma once

#include "base/dashboard/dashboard_feed.h"
#include "base/dashboard/latency_history.h"
#include "engine/service/service.h"
#include "scheduler/report/engine_report.h"

namespace tandem {

struct DashboardSubject {
  const EngineIdentity& engine;
  const GenerationService& service;
  const LatencyHistory& latencies;
  bool draining = false;
  bool may_load = false;  // adapters may be loaded and unloaded over REST
};

// Any thread.
DashboardPicture engine_picture(const DashboardSubject& subject);

}  // namespace tandem
