#include "cpu_lora/placement/process_place.h"

#include <numaif.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "base/parse_number.h"
#include "cpu_lora/topology/machine_map.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

Result<std::string> read_proc(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  // Some files of /proc can be opened but not read.
  if (file && !text.str().empty()) return text.str();
  return errno_status(path, errno == 0 ? ENOENT : errno);
}

template <typename T>
std::optional<T> number_of(std::string_view text) {
  return take_number<T>(text);
}

// The value after "key:" in /proc/PID/status.
std::string_view field_of(std::string_view text, std::string_view key) {
  std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  at = text.find_first_not_of(" \t", at + key.size());
  if (at == std::string_view::npos) return {};
  return text.substr(at, text.find('\n', at) - at);
}

// Field 39 of /proc/PID/stat. The second field, the name, may contain blanks and brackets.
int last_cpu_of(std::string_view stat) {
  constexpr int kField = 39;
  std::size_t at = stat.rfind(')');
  for (int field = 2; field < kField && at != std::string_view::npos; ++field) {
    at = stat.find(' ', at + 1);
  }
  if (at == std::string_view::npos) return -1;
  return number_of<int>(stat.substr(at + 1)).value_or(-1);
}

}  // namespace

Result<ThreadPlace> read_thread_place(int pid, int tid) {
  const std::string folder = fmt::format("/proc/{}/task/{}/", pid, tid);
  TANDEM_ASSIGN(const std::string status, read_proc(folder + "status"));
  TANDEM_ASSIGN(const std::string stat, read_proc(folder + "stat"));
  ThreadPlace place;
  place.tid = tid;
  TANDEM_ASSIGN(place.allowed, parse_id_list(field_of(status, "\nCpus_allowed_list:")));
  place.last_cpu = last_cpu_of(stat);
  place.name = field_of(status, "Name:");
  // A process that has ended and is not yet reaped runs nowhere.
  const std::string_view state = field_of(status, "\nState:");
  if (state.starts_with('Z') || state.starts_with('X')) {
    return error(StatusCode::not_found, "process {} has ended", pid);
  }
  return place;
}

Result<std::vector<ThreadPlace>> read_thread_places(int pid) {
  std::vector<ThreadPlace> places;
  std::error_code failure;
  for (fs::directory_iterator each(fmt::format("/proc/{}/task", pid), failure), end;
       !failure && each != end; each.increment(failure)) {
    const auto tid = number_of<int>(each->path().filename().string());
    if (!tid) continue;
    Result<ThreadPlace> place = read_thread_place(pid, *tid);
    if (place) places.push_back(*std::move(place));
  }
  if (places.empty()) return error(StatusCode::not_found, "process {} has ended", pid);
  return places;
}

PagesByNode parse_numa_maps(std::string_view text) {
  PagesByNode pages;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // Pages shared with other processes are skipped, because another process may have placed them.
    if (line.find(" anon=") == std::string_view::npos) continue;
    for (std::size_t at = line.find(" N"); at != std::string_view::npos;
         at = line.find(" N", at + 1)) {
      const std::size_t equals = line.find('=', at);
      if (equals == std::string_view::npos) break;
      const auto node = number_of<int>(line.substr(at + 2, equals - at - 2));
      const auto count = number_of<std::uint64_t>(line.substr(equals + 1));
      if (node && count) pages[*node] += *count;
    }
  }
  return pages;
}

Result<PagesByNode> read_own_pages(int pid) {
  const std::string path = fmt::format("/proc/{}/numa_maps", pid);
  std::error_code ignored;
  if (!fs::exists("/proc/self/numa_maps", ignored)) {
    return error(StatusCode::unavailable, "this kernel does not count pages by node");
  }
  TANDEM_ASSIGN(const std::string text, read_proc(path));
  return parse_numa_maps(text);
}

Result<PagesByNode> find_pages(const std::byte* begin, std::size_t bytes, std::size_t most_pages) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t count = (bytes + page - 1) / page;
  const std::size_t sampled = std::min(count, std::max<std::size_t>(most_pages, 1));
  PagesByNode pages;
  if (sampled == 0) return pages;
  std::vector<void*> addresses(sampled);
  std::vector<int> places(sampled, -1);
  for (std::size_t i = 0; i < sampled; ++i) {
    const std::byte* address = begin + i * count / sampled * page;
    // move_pages() reports only pages in this process's page tables; reading a byte maps the page.
    (void)*reinterpret_cast<const volatile std::byte*>(address);
    addresses[i] = const_cast<std::byte*>(address);
  }
  // Without target nodes move_pages() moves nothing and reports where the pages are.
  if (::move_pages(0, sampled, addresses.data(), nullptr, places.data(), 0) != 0) {
    return errno == ENOSYS ? error(StatusCode::unavailable, "this kernel knows no NUMA nodes")
                           : errno_status("move_pages", errno);
  }
  for (const int node : places) {
    if (node >= 0) ++pages[node];
  }
  return pages;
}

}  // namespace tandem
