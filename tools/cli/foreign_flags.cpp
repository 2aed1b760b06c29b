#include "tools/cli/foreign_flags.h"

#include <algorithm>
#include <array>

namespace tandem {
namespace {

struct Hint {
  std::string_view flag;
  std::string_view text;
};

constexpr std::string_view kOneGpu =
    "a process computes on one GPU, which --gpu N picks: leave it out";
constexpr std::string_view kNoQuantization =
    "weights are computed with as the checkpoint has them: leave it out, or take another "
    "checkpoint";
constexpr std::string_view kOutputLen = "here it is --output-len";
constexpr std::string_view kNoTls = "put a proxy in front that ends TLS";

constexpr std::array<Hint, 44> kHints = {{
    {"--enable-lora", "adapters are always welcome: leave it out"},
    {"--lora-modules", "--adapter NAME=DIR names one, --adapters DIR a folder of them"},
    {"--max-loras", "here it is --max-device-adapters"},
    {"--max-cpu-loras", "here it is --max-adapters, and --host-tier-gb for their memory"},
    {"--lora-dtype", "adapters are computed with in --dtype: leave it out"},
    {"--lora-extra-vocab-size", "adapters with words of their own are not supported: leave it out"},
    {"--fully-sharded-loras", kOneGpu},
    {"--gpu-memory-utilization",
     "--pool-gb GB says how much memory KV and adapters share; by default all that is left"},
    {"--tensor-parallel-size", kOneGpu},
    {"-tp", kOneGpu},
    {"--pipeline-parallel-size", kOneGpu},
    {"-pp", kOneGpu},
    {"--data-parallel-size", kOneGpu},
    {"-dp", kOneGpu},
    {"--distributed-executor-backend", kOneGpu},
    {"--enable-prefix-caching", "it is on by default: leave it out"},
    {"--no-enable-prefix-caching", "here it is --no-prefix-cache"},
    {"--enable-chunked-prefill",
     "long prompts are always computed in chunks, of --max-num-batched-tokens: leave it out"},
    {"--no-enable-chunked-prefill",
     "long prompts are always computed in chunks; --max-num-batched-tokens sets their size"},
    {"--block-size", "here it is --page-tokens"},
    {"--num-gpu-blocks-override", "here it is --pool-pages"},
    {"--kv-cache-dtype", "the KV cache is of --dtype: leave it out"},
    {"--enforce-eager", "here it is --graphs off"},
    {"--cuda-graph-sizes", "here it is --max-graph-batch"},
    {"--quantization", kNoQuantization},
    {"-q", kNoQuantization},
    {"--tokenizer", "the checkpoint's own tokenizer.json is used: leave it out"},
    {"--trust-remote-code", "code of a checkpoint is never run: leave it out"},
    {"--chat-template",
     "the checkpoint's own is used; requests may bring theirs with --trust-request-chat-template"},
    {"--enable-auto-tool-choice",
     "calls of tools are read unless --tool-call-parser is none: leave it out"},
    {"--download-dir", "nothing is downloaded; --model names a folder"},
    {"--revision", "nothing is downloaded; --model names a folder"},
    {"--swap-space", "nothing is swapped: leave it out"},
    {"--cpu-offload-gb", "the base model stays on the device whole: leave it out"},
    {"--uvicorn-log-level", "here it is --log-level"},
    {"--ssl-keyfile", kNoTls},
    {"--ssl-certfile", kNoTls},
    {"--max-seq-len", "here it is --max-model-len"},
    {"--random-input-len", "here it is --input-len"},
    {"--random-output-len", kOutputLen},
    {"--custom-output-len", kOutputLen},
    {"--sharegpt-output-len", kOutputLen},
    {"--prefix-repetition-output-len", kOutputLen},
    {"--prefix-repetition-suffix-len", "here it is --input-len"},
}};

}  // namespace

std::string_view foreign_flag_hint(std::string_view flag) {
  const auto* const found = std::ranges::find(kHints, flag, &Hint::flag);
  return found == kHints.end() ? std::string_view() : found->text;
}

}  // namespace tandem
