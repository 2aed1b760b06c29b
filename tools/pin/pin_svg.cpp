#include "tools/pin/pin_svg.h"
#include "tools/report/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/report/machine_boxes.h"

namespace tandem {
namespace {

// Sizes in pixels.
constexpr int kPad = 12;    // inside a box, and between boxes
constexpr int kTitle = 22;  // a box's first line
constexpr int kCoreWidth = 78;
constexpr int kCoreGap = 6;
constexpr int kThread = 19;  // height of a hardware thread
constexpr int kCache = 14;   // of a private cache
constexpr int kCoreTitle = 15;
constexpr int kGpuWidth = 250;
constexpr int kGpuHeight = 40;
constexpr int kMaxWidth = 1280;  // boxes go to the next row beyond it
constexpr int kMargin = 20;
constexpr int kLegendRow = 24;
constexpr int kMaxColumns = 14;  // of cores

// Engine and workers have two colours that colour-blind readers can distinguish, with enough
// contrast for text; the other roles have no colour. CSS variables are not used, because few SVG
// renderers support them. Within a page this style comes after the page's own.
constexpr std::string_view kStyle = R"(
    svg text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #1b1f24; }
    .title { font-size: 17px; font-weight: 600; }
    .quiet { fill: #57606a; }
    .small { font-size: 10px; }
    .name { font-weight: 600; }
    .page { fill: #ffffff; }
    .package { fill: #f6f8fa; stroke: #8c959f; }
    .node { fill: #eaeef2; stroke: #8c959f; }
    .cache { fill: #f6f8fa; stroke: #afb8c1; }
    .core { fill: #ffffff; stroke: #8c959f; }
    .own { fill: #eaeef2; }
    .gpu { fill: #1a7f37; }
    .idle, .sibling, .excluded, .barred { stroke: #8c959f; }
    .idle { fill: #ffffff; }
    .sibling { fill: #d0d7de; }
    .excluded { fill: #d0d7de; }
    .barred { fill: none; stroke-dasharray: 3 2; }
    .engine { fill: #0969da; }
    .worker { fill: #e69f00; }
    .isolated { fill: none; stroke: #cf222e; stroke-width: 2; }
    .strike { stroke: #57606a; }
    .on-dark { fill: #ffffff; }
    .on-light { fill: #1b1f24; }
    @media (prefers-color-scheme: dark) {
      svg text { fill: #e6edf3; }
      .quiet { fill: #9198a1; }
      .page { fill: #0d1117; }
      .package { fill: #161b22; stroke: #6e7681; }
      .node { fill: #21262d; stroke: #6e7681; }
      .cache { fill: #161b22; stroke: #484f58; }
      .core { fill: #0d1117; stroke: #6e7681; }
      .own { fill: #30363d; }
      .idle { fill: #0d1117; }
      .sibling, .excluded { fill: #3d444d; }
      .strike { stroke: #9198a1; }
      .isolated { stroke: #ff7b72; }
      .on-dark { fill: #ffffff; }
      .on-light { fill: #1b1f24; }
    }
)";

struct RoleStyle {
  CpuRole role;
  const char* css;
  const char* text_css;
  const char* meaning;
};
constexpr RoleStyle kRoles[] = {
    {CpuRole::engine, "engine", "on-dark", "engine"},
    {CpuRole::worker, "worker", "on-light", "CPU LoRA worker"},
    {CpuRole::idle, "idle", "", "usable, idle"},
    {CpuRole::sibling, "sibling", "", "sibling of a core in use"},
    {CpuRole::excluded, "excluded", "", "excluded"},
    {CpuRole::barred, "barred", "quiet", "not ours: cpuset or affinity mask"},
};

const RoleStyle& style_of(CpuRole role) {
  return *std::find_if(std::begin(kRoles), std::end(kRoles),
                       [&](const RoleStyle& style) { return style.role == role; });
}

// SVG is XML, which does not allow control characters.
std::string escape(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20) shown += c;
  }
  return html_escape(shown);
}

// The part of the text that fits into about `width` pixels.
std::string cut(const std::string& text, int width) {
  const auto letters = static_cast<std::size_t>(std::max(4, width / 7));
  return text.size() <= letters ? text : text.substr(0, letters - 1) + "…";
}

struct Extent {
  int width = 0;
  int height = 0;
};

class Picture {
 public:
  Picture(const MachineMap& map, const std::map<int, CpuRole>& roles) : map_(map), roles_(roles) {}

  std::string draw(const std::string& caption);

 private:
  Extent measure_core(const MachineCore& core) const;
  Extent measure(const MachineBox& box) const;
  // Places the inner boxes in rows; returns their common extent.
  Extent flow(const std::vector<MachineBox>& boxes, std::vector<std::pair<int, int>>* places) const;
  static int columns(std::size_t count);
  Extent core_grid(const MachineBox& box) const;

  void rect(int x, int y, int width, int height, std::string_view css, int radius = 4);
  void text(int x, int y, std::string_view css, std::string_view what, bool centred = false);
  void draw_core(const MachineCore& core, int x, int y);
  void draw_gpu(const MachineGpu& gpu, int x, int y);
  void draw_box(const MachineBox& box, int x, int y, Extent extent);
  int draw_legend(int y, int width);  // returns the y where it ends

  const MachineMap& map_;
  const std::map<int, CpuRole>& roles_;
  std::string out_;
};

std::vector<std::string> cache_lines(const std::string& caches) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < caches.size();) {
    const std::size_t end = std::min(caches.find(", ", start), caches.size());
    lines.push_back(caches.substr(start, end - start));
    start = end + 2;
  }
  return lines;
}

Extent Picture::measure_core(const MachineCore& core) const {
  const int caches = static_cast<int>(cache_lines(private_caches(map_, core)).size());
  const int threads = static_cast<int>(core.threads.size());
  return {kCoreWidth, kCoreTitle + caches * (kCache + 2) + threads * (kThread + 2) + 4};
}

// A number of columns that makes the grid about twice as wide as high, if possible without a gap in
// the last row.
int Picture::columns(std::size_t count) {
  const int cores = static_cast<int>(count);
  const int ideal = std::clamp(
      static_cast<int>(std::ceil(std::sqrt(2.0 * static_cast<double>(count)))), 1, kMaxColumns);
  for (int wider = ideal; wider <= std::min({ideal + 3, cores, kMaxColumns}); ++wider) {
    if (cores % wider == 0) return wider;
  }
  return ideal;
}

Extent Picture::core_grid(const MachineBox& box) const {
  if (box.cores.empty()) return {};
  int tallest = 0;
  for (const MachineCore* core : box.cores) tallest = std::max(tallest, measure_core(*core).height);
  const int count = static_cast<int>(box.cores.size());
  const int across = std::min(columns(box.cores.size()), count);
  const int down = (count + across - 1) / across;
  return {across * (kCoreWidth + kCoreGap) - kCoreGap, down * (tallest + kCoreGap) - kCoreGap};
}

Extent Picture::flow(const std::vector<MachineBox>& boxes,
                     std::vector<std::pair<int, int>>* places) const {
  Extent all;
  int x = 0;
  int y = 0;
  int row_height = 0;
  for (const MachineBox& box : boxes) {
    const Extent one = measure(box);
    if (x > 0 && x + one.width > kMaxWidth) {
      x = 0;
      y += row_height + kPad;
      row_height = 0;
    }
    if (places != nullptr) places->emplace_back(x, y);
    all.width = std::max(all.width, x + one.width);
    row_height = std::max(row_height, one.height);
    all.height = std::max(all.height, y + row_height);
    x += one.width + kPad;
  }
  return all;
}

Extent Picture::measure(const MachineBox& box) const {
  const Extent grid = core_grid(box);
  const Extent inner = flow(box.boxes, nullptr);
  const int gpus = static_cast<int>(box.gpus.size());
  Extent extent;
  const int title_width = static_cast<int>(box.name.size() + box.detail.size()) * 7 + 20;
  extent.width = std::max({grid.width, inner.width, gpus > 0 ? kGpuWidth : 0,
                           box.kind == MachineBox::Kind::machine ? 0 : std::min(title_width, 330)});
  extent.height = box.kind == MachineBox::Kind::machine ? 0 : kTitle;
  for (const int part :
       {gpus * (kGpuHeight + kCoreGap) - (gpus > 0 ? kCoreGap : 0), grid.height, inner.height}) {
    if (part > 0) extent.height += part + kPad;
  }
  if (box.kind != MachineBox::Kind::machine) extent.width += 2 * kPad;
  return extent;
}

void Picture::rect(int x, int y, int width, int height, std::string_view css, int radius) {
  out_ +=
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" class=\"{}\"/>\n",
                  x, y, width, height, radius, css);
}

void Picture::text(int x, int y, std::string_view css, std::string_view what, bool centred) {
  out_ += fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\"{}>{}</text>\n", x, y, css,
                      centred ? " text-anchor=\"middle\"" : "", escape(what));
}

void Picture::draw_core(const MachineCore& core, int x, int y) {
  const Extent extent = measure_core(core);
  rect(x, y, extent.width, extent.height, "core");
  text(x + extent.width / 2, y + 12, "small quiet", fmt::format("core {}", core.id), true);
  int top = y + kCoreTitle;
  for (const std::string& cache : cache_lines(private_caches(map_, core))) {
    rect(x + 4, top, extent.width - 8, kCache, "own", 2);
    text(x + extent.width / 2, top + 11, "small quiet", cache, true);
    top += kCache + 2;
  }
  for (const MachineThread& thread : core.threads) {
    const auto role = roles_.find(thread.cpu);
    const RoleStyle& style = style_of(role == roles_.end() ? CpuRole::idle : role->second);
    rect(x + 4, top, extent.width - 8, kThread, style.css, 3);
    if (style.role == CpuRole::excluded) {
      out_ += fmt::format("<path d=\"M{} {}l{} {}\" class=\"strike\"/>\n", x + 4, top + kThread,
                          extent.width - 8, -kThread);
    }
    if (thread.isolated) rect(x + 4, top, extent.width - 8, kThread, "isolated", 3);
    text(x + extent.width / 2, top + 14, style.text_css, fmt::format("cpu {}", thread.cpu), true);
    top += kThread + 2;
  }
}

void Picture::draw_gpu(const MachineGpu& gpu, int x, int y) {
  rect(x, y, kGpuWidth, kGpuHeight, "gpu");
  text(x + 10, y + 17, "name on-dark", fmt::format("GPU {}", gpu.index));
  text(x + 10, y + 32, "small on-dark",
       cut(gpu.pci.empty() ? gpu.name : gpu.name + ", " + gpu.pci, kGpuWidth + 60));
}

void Picture::draw_box(const MachineBox& box, int x, int y, Extent extent) {
  static constexpr const char* kCss[] = {"", "package", "node", "cache"};
  int left = x;
  int top = y;
  if (box.kind != MachineBox::Kind::machine) {
    rect(x, y, extent.width, extent.height, kCss[static_cast<int>(box.kind)], 6);
    const int room = extent.width - 3 * kPad - static_cast<int>(box.name.size()) * 7;
    out_ += fmt::format(
        "<text x=\"{}\" y=\"{}\"><tspan class=\"name\">{}</tspan>"
        "<tspan class=\"quiet\" dx=\"6\">{}</tspan></text>\n",
        x + kPad, y + 16, escape(box.name), escape(cut(box.detail, room)));
    left += kPad;
    top += kTitle;
  }
  for (const MachineGpu* gpu : box.gpus) {
    draw_gpu(*gpu, left, top);
    top += kGpuHeight + kCoreGap;
  }
  if (!box.gpus.empty()) top += kPad - kCoreGap;
  const Extent grid = core_grid(box);
  if (!box.cores.empty()) {
    const int across = std::min(columns(box.cores.size()), static_cast<int>(box.cores.size()));
    const int down = (static_cast<int>(box.cores.size()) + across - 1) / across;
    const int row = (grid.height + kCoreGap) / down;
    for (std::size_t i = 0; i < box.cores.size(); ++i) {
      const int index = static_cast<int>(i);
      draw_core(*box.cores[i], left + index % across * (kCoreWidth + kCoreGap),
                top + index / across * row);
    }
    top += grid.height + kPad;
  }
  std::vector<std::pair<int, int>> places;
  flow(box.boxes, &places);
  for (std::size_t i = 0; i < box.boxes.size(); ++i) {
    draw_box(box.boxes[i], left + places[i].first, top + places[i].second, measure(box.boxes[i]));
  }
}

// The legend contains only what the picture shows.
int Picture::draw_legend(int y, int width) {
  std::set<CpuRole> shown;
  bool isolated = false;
  for (const MachineCore& core : map_.cores) {
    for (const MachineThread& thread : core.threads) {
      const auto role = roles_.find(thread.cpu);
      shown.insert(role == roles_.end() ? CpuRole::idle : role->second);
      isolated = isolated || thread.isolated;
    }
  }
  int x = kMargin;
  const auto entry = [&](const char* css, std::string_view meaning, bool strike) {
    const int room = 32 + static_cast<int>(meaning.size()) * 7 + 14;
    if (x > kMargin && x + room > width + kMargin) {
      x = kMargin;
      y += kLegendRow;
    }
    rect(x, y, 26, 16, css, 3);
    if (strike) out_ += fmt::format("<path d=\"M{} {}l26 -16\" class=\"strike\"/>\n", x, y + 16);
    text(x + 32, y + 13, "", meaning);
    x += room;
  };
  for (const RoleStyle& style : kRoles) {
    if (shown.count(style.role) == 0) continue;
    entry(style.css, style.meaning, style.role == CpuRole::excluded);
  }
  if (isolated) entry("isolated", "isolated (isolcpus)", false);
  return y + kLegendRow;
}

std::string Picture::draw(const std::string& caption) {
  const MachineBox machine = make_boxes(map_);
  const Extent body = measure(machine);
  const int inside = std::max(body.width, 760);
  const int width = inside + 2 * kMargin;
  const int top = kMargin + (caption.empty() ? 30 : 50);
  text(kMargin, kMargin + 14, "title", cut(machine.name, inside * 7 / 11));
  if (!caption.empty()) text(kMargin, kMargin + 36, "quiet", caption);
  draw_box(machine, kMargin, top, body);
  const int height = draw_legend(top + body.height + 10, inside) + kMargin / 2;
  const std::string inner = std::move(out_);
  out_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n",
      width, height, escape(machine.name), kStyle);
  rect(0, 0, width, height, "page", 0);
  return out_ + inner + "</svg>\n";
}

}  // namespace

std::string machine_svg(const MachineMap& map, const std::map<int, CpuRole>& roles,
                        const std::string& caption) {
  return Picture(map, roles).draw(caption);
}

}  // namespace tandem
