// Where a process runs and where its memory lies, by the kernel's own account (/proc, move_pages).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

// Pages by NUMA node.
using PagesByNode = std::map<int, std::uint64_t>;

struct ThreadPlace {
  int tid = 0;
  std::vector<int> allowed;  // cpus that it may run on, rising
  int last_cpu = -1;         // that it ran on last, or runs on now
  std::string name = {};     // as the system shows it
};

// Of a process's main thread, or of a thread of it. not_found: it has ended.
Result<ThreadPlace> read_thread_place(int pid, int tid);
// Of all its threads; those that end meanwhile are left out. not_found: the process has ended.
Result<std::vector<ThreadPlace>> read_thread_places(int pid);

// Where the process's own memory (heap, stacks) lies. permission_denied: not ours to know, as of a
// worker that has given up its user; unavailable: the kernel does not count by node.
Result<PagesByNode> read_own_pages(int pid);
// The anonymous pages that /proc/PID/numa_maps tells of.
PagesByNode parse_numa_maps(std::string_view text);

// Where the pages of a mapping of this process lie: of all, or of `most_pages` spread evenly over
// it. Reads a byte of each. unavailable: the kernel knows no nodes.
Result<PagesByNode> find_pages(const std::byte* begin, std::size_t bytes, std::size_t most_pages);

}  // namespace tandem
