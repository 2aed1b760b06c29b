// tandem: picks the subcommand.
#include <dnnl.h>
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_device.h"
#include "tools/adapters/adapters.h"
#include "tools/bench/bench.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/output.h"
#include "tools/cli/version.h"
#include "tools/generate/generate.h"
#include "tools/manual/manual.h"
#include "tools/pick/pick.h"
#include "tools/pin/pin.h"
#include "tools/profile/profile.h"
#include "tools/replay/replay.h"
#include "tools/route/route.h"
#include "tools/serve/serve.h"
#include "tools/simulate/simulate.h"
#include "tools/worker/constraint_worker.h"
#include "tools/worker/worker.h"

namespace tandem {
namespace {

Subcommands commands();

int run_man(const std::vector<std::string>& args) {
  return print_man_pages(commands(), args);
}
int run_completion(const std::vector<std::string>& args) {
  return print_completion(commands(), args);
}

constexpr Subcommand kCommands[] = {
    {"serve", "serve one model and its adapters over REST", run_serve},
    {"route", "one address in front of several engines", run_route},
    {"drain", "empty an engine; its streams continue at others", run_drain},
    {"pick", "tell Envoy which engine a request goes to", run_pick},
    {"generate", "one prompt in, text out, no server", run_generate},
    {"adapters", "a cluster's registry: add, list, show, verify, remove", run_adapters},
    {"pin", "show the machine's cores and plan their use", run_pin},
    {"profile", "measure this machine and model, and plan with it", run_profile},
    {"replay", "run an engine's recorded steps again", run_replay},
    {"simulate", "many engines in simulated time, policies side by side", run_simulate},
    {"worker", "compute deltas on a CPU core (internal: started by serve or pin)", run_worker},
    {"constraint-worker", "compile schemas and patterns (internal: started by serve)",
     run_constraint_worker},
    {"bench", "measure serving, engine, cold starts, kernels, tokenizer, loading, routing",
     run_bench},
    {"man", "print or write manual pages", run_man},
    {"completion", "print completion scripts for bash, zsh or fish", run_completion},
};

Subcommands commands() {
  return {"tandem", "command",
          "Usage: tandem COMMAND [flags]\n\nServes one base LLM and many LoRA adapters.\n\n"
          "Commands:\n",
          "\n`tandem COMMAND --help` explains a command; `tandem --version` prints the version.\n",
          kCommands};
}

void print_version() {
  const dnnl_version_t* dnnl = dnnl_version();
  fmt::print("tandem {} ({})\ncompiler {}\noneDNN {}.{}.{}\nCUDA {}\n", version_number(),
             build_commit(), build_text(), dnnl->major, dnnl->minor, dnnl->patch, describe_cuda());
}

int run(const std::vector<std::string>& args) {
  const std::string first = args.empty() ? "" : args.front();
  if (first == "--version" || first == "-V" || first == "version") {
    print_version();
    return kExitOk;
  }
  return run_subcommand(commands(), args);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  return tandem::run_program("tandem", [&] { return tandem::run({argv + 1, argv + argc}); });
}
