#include "tools/profile/predict/profile_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/clock.h"
#include "base/parse_number.h"
#include "engine/profile/layer_load.h"
#include "tools/bench/measure/bench_adapters.h"

namespace tandem {
namespace {

constexpr std::array<std::int32_t, 6> kMapTokens = {1, 8, 32, 64, 128, 256};
constexpr std::array<std::int32_t, 2> kMapRanks = {16, 64};
constexpr std::array<std::int32_t, 3> kMapCold = {1, 4, 8};

Result<double> number(std::string_view key, std::string_view text, double low, double high) {
  const auto value = parse_number<double>(text);
  if (!value || *value < low || *value > high) {
    return invalid("{}={}: it must be a number from {} to {}", key, text, low, high);
  }
  return *value;
}

Result<std::int32_t> whole(std::string_view key, std::string_view text, double low, double high) {
  TANDEM_ASSIGN(const double value, number(key, text, low, high));
  if (value != std::floor(value)) return invalid("{}={}: it must be a whole number", key, text);
  return static_cast<std::int32_t>(value);
}

Result<std::vector<std::string_view>> parse_modules(const std::string& text) {
  if (text == "qkv") return qkv_modules();
  if (text == "all7" || text == "all") return all_modules();
  std::vector<std::string_view> modules;
  std::stringstream names(text);
  for (std::string name; std::getline(names, name, ',');) {
    bool known = false;
    for (const std::string_view module : all_modules()) {
      if (module != name && module != name + "_proj") continue;
      if (std::find(modules.begin(), modules.end(), module) != modules.end()) {
        return invalid("modules={}: '{}' is named twice", text, name);
      }
      modules.push_back(module);
      known = true;
    }
    if (!known) {
      return invalid("modules={}: '{}' is none of qkv, all7, q, k, v, o, gate, up, down", text,
                     name);
    }
  }
  if (modules.empty()) return invalid("modules={}: name at least one", text);
  return modules;
}

std::vector<std::string_view> modules_of(const PlanQuestion& question) {
  return question.modules.empty() ? qkv_modules() : question.modules;
}

HandoffPlan all_by(const PlanAnswer& answer, LayerChoice choice) {
  HandoffPlan plan;
  const auto layers = static_cast<std::int32_t>(answer.request.adapters.front().layers.size());
  const auto count = static_cast<std::int32_t>(answer.request.adapters.size());
  plan.choices.assign(static_cast<std::size_t>(count),
                      std::vector<LayerChoice>(static_cast<std::size_t>(layers), choice));
  for (std::int32_t l = 0; l < layers; ++l) {
    for (std::int32_t i = 0; i < count; ++i) plan.order.push_back({i, l, PieceKind::layer});
  }
  predict(answer.costs, answer.request, plan);
  return plan;
}

std::string percent(double share) {
  return fmt::format("{:+.0f} %", share * 100);
}

// The shortest of several runs, which shows the time without disturbances.
double planning_seconds(const PlanAnswer& found) {
  constexpr int kRounds = 20;
  const SteadyClock clock;
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const TimePoint start = clock.now();
    (void)plan_handoff(found.costs, found.request);
    best = std::min(best, seconds_between(start, clock.now()));
  }
  return best;
}

}  // namespace

Result<PlanQuestion> parse_question(std::string_view text, PlanQuestion question) {
  std::stringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "tokens") {
      TANDEM_ASSIGN(question.tokens, whole(key, value, 1, 8192));
    } else if (key == "rank") {
      TANDEM_ASSIGN(question.rank, whole(key, value, 1, 2048));
    } else if (key == "cold") {
      TANDEM_ASSIGN(question.cold, whole(key, value, 1, 64));
    } else if (key == "cores") {
      TANDEM_ASSIGN(question.cores, whole(key, value, 0, 4096));
    } else if (key == "link") {
      TANDEM_ASSIGN(question.link, number(key, value, 0.001, 10000));
    } else if (key == "lead") {
      TANDEM_ASSIGN(question.lead_ms, number(key, value, 0, 1e6));
    } else if (key == "disk") {
      TANDEM_ASSIGN(question.disk, number(key, value, 0.001, 10000));
    } else if (key == "modules") {
      TANDEM_ASSIGN(question.modules, parse_modules(value));
    } else {
      return invalid(
          "'{}' is unknown; give tokens=N, rank=N, cold=N, link=GB/s, cores=N, lead=MS, disk=GB/s, "
          "modules=qkv|all7|LIST",
          word);
    }
  }
  return question;
}

ModelSpec shape_of(const ProfileModel& model) {
  DecoderShape shape;
  shape.hidden_size = model.hidden_size;
  shape.num_layers = model.num_layers;
  shape.num_heads = model.num_heads;
  shape.num_kv_heads = model.num_kv_heads;
  shape.head_dim = model.head_dim;
  shape.ffn_size = model.ffn_size;
  shape.vocab_size = model.vocab_size;
  return decoder_of(shape);
}

namespace {

LayerLoad layer_of(const ProfileModel& model, std::int32_t rank,
                   const std::vector<std::string_view>& modules) {
  return layer_load(shape_of(model), model.dtype, rank, modules,
                    static_cast<std::int32_t>(model.devices));
}

// The bytes of all devices' parts.
double whole_bytes(const LayerLoad& layer) {
  return static_cast<double>(layer.a_bytes + layer.a_elsewhere + layer.b_bytes + layer.b_elsewhere);
}

}  // namespace

double PlanAnswer::over_resident(const HandoffPlan& plan) const {
  const double start = std::max(0.0, request.starts_in);
  return (plan.layer_ends.back() - start) / (plan.resident_ends - start) - 1;
}

std::string PlanAnswer::source() const {
  if (over_resident(waiting) - over_resident(planned) < 0.02) return "wait";
  bool xa = false;
  for (const auto& of : planned.choices) {
    xa = xa || std::find(of.begin(), of.end(), LayerChoice::cpu_xa) != of.end();
  }
  return xa ? "B first" : "CPU";
}

PlanAnswer answer(const Profile& profile, const PlanQuestion& question) {
  PlanAnswer answer;
  answer.costs = profile.costs;
  if (question.link > 0) answer.costs.link_bytes_per_s = question.link * 1e9;
  const LayerLoad layer = layer_of(profile.model, question.rank, modules_of(question));
  ColdAdapter adapter;
  adapter.rows = question.tokens;
  adapter.layers.assign(static_cast<std::size_t>(profile.model.num_layers), layer);
  answer.request.rows = question.tokens * question.cold;
  answer.request.starts_in = question.lead_ms / 1e3;
  answer.request.workers = question.cores >= 0 ? question.cores : profile.workers;
  answer.request.adapters.assign(static_cast<std::size_t>(question.cold), adapter);
  if (question.disk > 0) {
    const double layer_s = whole_bytes(layer) / question.disk / 1e9;
    double read = 0;
    for (ColdAdapter& each : answer.request.adapters) {
      for (std::size_t l = 0; l < each.layers.size(); ++l)
        each.host_arrives.push_back(read += layer_s);
    }
  }
  answer.planned = plan_handoff(answer.costs, answer.request);
  answer.waiting = all_by(answer, LayerChoice::wait);
  answer.cpu_alone = all_by(answer, LayerChoice::cpu);
  return answer;
}

std::string explain_answer(const Profile& profile, const PlanQuestion& question) {
  const PlanAnswer found = answer(profile, question);
  const LayerLoad& layer = found.request.adapters.front().layers.front();
  const double megabytes = whole_bytes(layer) / 1e6;
  std::string names;
  for (const std::string_view module : modules_of(question)) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", module.substr(0, module.find('_')));
  }
  std::string text = fmt::format(
      "{} cold adapter{} of rank {} on {}, {} tokens each, {} ({}): {:.1f} MB a layer and adapter\n"
      "{} {:.1f} GB/s, {} CPU workers\n\n",
      question.cold, question.cold == 1 ? "" : "s", question.rank, names, question.tokens,
      profile.model.name, to_string(profile.model.dtype), megabytes,
      profile.model.devices == 1 ? "link"
                                 : fmt::format("{} devices, links of", profile.model.devices),
      found.costs.link_bytes_per_s / 1e9, found.request.workers);
  if (question.disk > 0) {
    text.insert(text.size() - 2, fmt::format(", read from disk at {:.1f} GB/s", question.disk));
  }
  text += explain(found.costs, found.request, found.planned);
  text += fmt::format("for comparison: waiting for all {}, CPU alone {}; the plan: {}\n",
                      percent(found.over_resident(found.waiting)),
                      percent(found.over_resident(found.cpu_alone)),
                      percent(found.over_resident(found.planned)));
  text += fmt::format("planned in {:.0f} us\n", planning_seconds(found) * 1e6);
  return text;
}

std::vector<double> map_links(const Profile& profile) {
  const double own = std::round(profile.costs.link_bytes_per_s / 1e8) / 10;
  std::vector<double> links = {own};
  for (const double slower : {25.0, 10.0, 5.0}) {
    if (slower < 0.8 * own) links.push_back(slower);
  }
  return links;
}

std::vector<MapCell> plan_map(const Profile& profile, std::int32_t cores,
                              const std::vector<double>& links_gbps) {
  std::vector<MapCell> cells;
  for (const double link : links_gbps) {
    for (const std::int32_t rank : kMapRanks) {
      for (const std::int32_t tokens : kMapTokens) {
        for (const std::int32_t cold : kMapCold) {
          MapCell& cell = cells.emplace_back();
          cell.question.tokens = tokens;
          cell.question.rank = rank;
          cell.question.cold = cold;
          cell.question.link = link;
          cell.question.cores = cores;
          const PlanAnswer found = answer(profile, cell.question);
          cell.waiting = found.over_resident(found.waiting);
          cell.cpu_alone = found.over_resident(found.cpu_alone);
          cell.planned = found.over_resident(found.planned);
          cell.source = found.source();
        }
      }
    }
  }
  return cells;
}

std::string map_text(const std::vector<MapCell>& cells) {
  std::string text;
  const MapCell* before = nullptr;
  for (const MapCell& cell : cells) {
    const PlanQuestion& q = cell.question;
    if (before == nullptr || before->question.link != q.link) {
      text +=
          fmt::format("{}link {} GB/s\n  rank  tokens", before == nullptr ? "" : "\n\n", q.link);
      for (const std::int32_t cold : kMapCold) {
        text += fmt::format("   {:>25}", fmt::format("{} cold", cold));
      }
    }
    if (before == nullptr || before->question.link != q.link || before->question.rank != q.rank ||
        before->question.tokens != q.tokens) {
      text += fmt::format("\n  {:>4}  {:>6}", q.rank, q.tokens);
    }
    text += fmt::format("   {:<7}{:>8} > {:>7}", cell.source, percent(cell.waiting),
                        percent(cell.planned));
    before = &cell;
  }
  return text + "\n";
}

std::string budget_text(const Profile& profile, const std::vector<double>& links_gbps) {
  constexpr std::int32_t kMost = 8192;
  const LayerLoad layer = layer_of(profile.model, 64, qkv_modules());
  std::vector<std::int32_t> cores;
  for (std::int32_t count = 1; count < profile.workers; count *= 2) cores.push_back(count);
  if (profile.workers > 0) cores.push_back(profile.workers);
  std::string text = fmt::format("{:>6}", "cores");
  for (const double link : links_gbps) text += fmt::format("{:>12}", fmt::format("{} GB/s", link));
  for (const std::int32_t count : cores) {
    text += fmt::format("\n{:>6}", count);
    for (const double link : links_gbps) {
      CostModel costs = profile.costs;
      costs.link_bytes_per_s = link * 1e9;
      text += fmt::format("{:>12}", costs.cpu_rows(layer, count, kMost));
    }
  }
  return text + "\n";
}

}  // namespace tandem
