#include "cpu_lora/topology/machine_load.h"

#include <sched.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include "cpu_lora/topology/machine_xml.h"

namespace tandem {
namespace {

// The ways in which hwloc may safely inspect this machine.
struct Ways {
  bool by_kernel = true;        // reading cpus, caches and nodes from /sys
  bool by_instruction = false;  // running cpuid on each cpu, for which the thread moves there
};

// Some sandboxes leave the kernel's folder of nodes empty; hwloc would then end the process.
bool has_no_nodes(const std::string& folder) {
  std::error_code failure;
  for (std::filesystem::directory_iterator each(folder, failure), end; !failure && each != end;
       each.increment(failure)) {
    if (each->path().filename().string().starts_with("node")) return false;
  }
  return !failure;
}

// Whether the process may change cpu affinity. The call changes nothing: it passes no mask, so the
// kernel answers EINVAL if it is permitted.
bool may_change_cpus() {
  return sched_getaffinity(0, 0, nullptr) != 0 && errno == EINVAL &&
         sched_setaffinity(0, 0, nullptr) != 0 && errno == EINVAL;
}

Status set_source(hwloc_topology_t topology, const MachineOptions& options,
                  const std::string& xml) {
  if (!options.xml.empty()) {
    if (hwloc_topology_set_xmlbuffer(topology, xml.c_str(), static_cast<int>(xml.size() + 1)) !=
        0) {
      return invalid("{} is not a machine that hwloc has described in XML", options.xml);
    }
  } else if (!options.synthetic.empty() &&
             hwloc_topology_set_synthetic(topology, options.synthetic.c_str()) != 0) {
    return invalid("'{}' does not describe a machine; an example is \"pack:2 node:2 core:8 pu:2\"",
                   options.synthetic);
  }
  return {};
}

Result<TopologyHandle> load(const MachineOptions& options, const std::string& xml, Ways ways) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return errno_status("hwloc_topology_init", errno);
  TopologyHandle topology(raw);
  const auto without = [&](const char* component) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  };
  // These would start a driver only to learn what PCI reports as well. "pci", if installed, reads
  // through libpciaccess, which leaks; hwloc gets the same data from sysfs.
  for (const char* name : {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "pci"}) {
    without(name);
  }
  if (!ways.by_kernel) without("linux:cpu");
  // Resources that this process may not use are shown as well.
  unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
  if (!ways.by_instruction) flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
  hwloc_topology_set_flags(raw, flags);
  if (options.gpus) {
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  }
  TANDEM_TRY(set_source(raw, options, xml));
  if (hwloc_topology_load(raw) == 0) return topology;
  if (options.xml.empty()) return errno_status("hwloc_topology_load", errno);
  return invalid("{} is not a machine that hwloc has described in XML", options.xml);
}

}  // namespace

bool is_this_machine(const MachineOptions& options) {
  return options.xml.empty() && options.synthetic.empty();
}

Result<TopologyHandle> load_machine(const MachineOptions& options) {
  std::string xml;
  if (!options.xml.empty()) {
    TANDEM_ASSIGN(xml, read_machine_xml(options.xml));
  }
  Ways ways;
  ways.by_kernel = !is_this_machine(options) || !has_no_nodes(options.node_folder);
  TANDEM_ASSIGN(TopologyHandle topology, load(options, xml, ways));
  // After a thread has been moved, the kernel keeps it from cpus that its cpuset gets later. So
  // hwloc asks the cpus themselves only if the kernel does not report them.
  if (!is_this_machine(options) || !may_change_cpus() ||
      hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_CORE) > 0) {
    return topology;
  }
  ways.by_instruction = true;
  return load(options, xml, ways);
}

}  // namespace tandem
