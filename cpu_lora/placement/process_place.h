// The cpus of a process and the nodes of its memory, as reported by the kernel (/proc, move_pages).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

// Number of pages by NUMA node.
using PagesByNode = std::map<int, std::uint64_t>;

struct ThreadPlace {
  int tid = 0;
  std::vector<int> allowed;  // cpus that it may run on, rising
  int last_cpu = -1;         // the cpu that it runs on now or ran on last
  std::string name = {};     // as the kernel reports it
};

// The place of a process's main thread, or of another of its threads. not_found: it has ended.
Result<ThreadPlace> read_thread_place(int pid, int tid);
// The places of all threads of a process, without threads that end during the call. not_found: the
// process has ended.
Result<std::vector<ThreadPlace>> read_thread_places(int pid);

// The nodes of the process's own memory (heap, stacks). permission_denied: this user may not read
// it, for example of a worker that has given up its user; unavailable: the kernel does not count
// pages by node.
Result<PagesByNode> read_own_pages(int pid);
// The anonymous pages listed in the text of /proc/PID/numa_maps.
PagesByNode parse_numa_maps(std::string_view text);

// The nodes of the pages of a mapping of this process: of all pages, or of `most_pages` spread
// evenly over it. Reads a byte of each. unavailable: the kernel does not support NUMA nodes.
Result<PagesByNode> find_pages(const std::byte* begin, std::size_t bytes, std::size_t most_pages);

}  // namespace tandem
