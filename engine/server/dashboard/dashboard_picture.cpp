#include "engine/server/dashboard/dashboard_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/dashboard/dashboard_json.h"
#include "engine/server/messages/response_building.h"
#include "engine/service/engine_figures.h"

namespace tandem {
namespace {

using nlohmann::json;

// `section` is "pool" or "counts".
json figures_json(std::string_view section, const EngineStats& stats) {
  json object;
  each_figure_of(section, stats,
                 [&](std::string_view name, const Figure&, auto value) { object[name] = value; });
  return object;
}

json worker_json(const CpuWorker& worker) {
  return {{"node", worker.node},         {"cpu", worker.cpu},
          {"group", worker.group},       {"worker_slot", worker.worker_slot},
          {"up", worker.pid != 0},       {"ours", worker.ours},
          {"left_out", worker.left_out}, {"restarts", worker.restarts},
          {"jobs", worker.jobs},         {"busy_s", worker.busy_s},
          {"last_end", worker.last_end}};
}

// These rows are most of the data sent each second. They are written by hand, because nlohmann's
// trees cost ten times as much.
DashboardRow adapter_row(const AdapterInfo& adapter) {
  std::string modules;
  for (const std::string& module : adapter.modules) {
    fmt::format_to(std::back_inserter(modules), R"({}"{}")", modules.empty() ? "" : ",", module);
  }
  DashboardRow row;
  row.key = dump(json(adapter.name));
  row.json = fmt::format(
      R"({{"name":{},"path":{},"rank":{},"modules":[{}],"bytes":{},"tier":"{}","pinned":{},"running":{},"waiting":{},"hits":{},"cold_starts":{}}})",
      row.key, dump(json(adapter.path)), adapter.rank, modules, adapter.bytes, adapter.tier,
      adapter.pinned, adapter.running, adapter.waiting, adapter.hits, adapter.cold_starts);
  return row;
}

// Formats seconds with microsecond resolution.
std::string times(std::span<const float> seconds) {
  std::string list;
  for (const float each : seconds) {
    fmt::format_to(std::back_inserter(list), "{}{:.6f}", list.empty() ? "" : ",", each);
  }
  return list;
}

DashboardRow cold_start_row(const ColdStart& start) {
  std::string steps;
  for (const ColdStart::Step& step : start.steps) {
    fmt::format_to(
        std::back_inserter(steps),
        R"({}{{"begin_s":{:.6f},"end_s":{:.6f},"planned_s":{:.6f},"rows":{},"who":"{}","takeover":{},"layers_s":[{}]}})",
        steps.empty() ? "" : ",", step.begin_s, step.end_s, step.planned_s, step.rows, step.who,
        takeover_layer(step), times(step.layers_begin_s));
  }
  DashboardRow row;
  row.key = fmt::format("{}", start.number);
  row.json = fmt::format(
      R"({{"number":{},"adapter":{},"rank":{},"bytes":{},"began_unix_ms":{},"read_begin_s":{:.6f},"read_end_s":{:.6f},"ordered_s":{:.6f},"arrived_s":{:.6f},"first_token_s":{:.6f},"failed":{},"there_s":[{}],"steps":[{}]}})",
      start.number, dump(json(start.adapter)), start.rank, start.bytes, start.began_unix_ms,
      start.read_begin_s, start.read_end_s, start.ordered_s, start.arrived_s, start.first_token_s,
      start.failed, times(start.layers_there_s), steps);
  return row;
}

}  // namespace

DashboardPicture engine_picture(const DashboardSubject& subject) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const EngineStats stats = subject.service.stats();
  json workers = json::array();
  for (const CpuWorker& worker : subject.service.cpu_workers()) {
    workers.push_back(worker_json(worker));
  }
  const json head{
      {"kind", "engine"},
      {"unix_ms", std::chrono::duration_cast<std::chrono::milliseconds>(now).count()},
      {"engine",
       {{"id", subject.engine.id},
        {"version", subject.engine.version},
        {"model", subject.engine.model},
        {"max_model_len", subject.engine.max_model_len},
        {"state", subject.draining || !subject.service.ready() ? "draining" : "serving"}}},
      {"may_load", subject.may_load},
      {"running", stats.running},
      {"waiting", stats.waiting},
      {"pool", figures_json("pool", stats)},
      {"counts", figures_json("counts", stats)},
      {"workers", std::move(workers)}};
  DashboardPicture picture;
  picture.head = members_of(dump(head)) + "," + latency_members(subject.latencies);
  DashboardTable adapters{"adapters", {}};
  for (const AdapterInfo& adapter : subject.service.adapters()) {
    adapters.rows.push_back(adapter_row(adapter));
  }
  DashboardTable starts{"cold_starts", {}};
  for (const ColdStart& start : subject.service.cold_starts()) {
    starts.rows.push_back(cold_start_row(start));
  }
  for (DashboardTable* table : {&adapters, &starts}) {
    std::ranges::sort(table->rows, {}, &DashboardRow::key);
  }
  picture.tables.push_back(std::move(adapters));
  picture.tables.push_back(std::move(starts));
  return picture;
}

}  // namespace tandem
