#include "tools/cli/flags/foreign_flags.h"

#include <algorithm>
#include <array>

namespace tandem {
namespace {

struct Hint {
  std::string_view flag;
  std::string_view text;
};

constexpr std::string_view kNotByDepth =
    "layers are not split by depth; --tensor-parallel N shares each among N GPUs: leave it out";
constexpr std::string_view kShare = "here it is --tensor-parallel, and --gpus says which";
constexpr std::string_view kSeveral = "start several, behind `tandem route`: leave it out";
constexpr std::string_view kNoDraft = "nothing is guessed ahead of the model: leave it out";
constexpr std::string_view kNoQuantization =
    "weights are computed with as the checkpoint has them: leave it out, or take another "
    "checkpoint";
constexpr std::string_view kOutputLen = "here it is --output-len";
constexpr std::string_view kNoTls = "put a proxy in front that ends TLS";
constexpr std::string_view kPages = "a page of the KV cache always holds 16 tokens: leave it out";
constexpr std::string_view kPool = "here it is --pool-gb, in GB of memory";
constexpr std::string_view kOwnKernels = "there is one set of kernels: leave it out";
constexpr std::string_view kNoDownload = "nothing is downloaded; --model names a folder";
constexpr std::string_view kChunk = "here it is --max-num-batched-tokens";
constexpr std::string_view kOverlap =
    "--adapter-mode says how cold adapters come; planned, the default, does what is fastest";

constexpr std::array<Hint, 112> kHints = {{
    {"--enable-lora", "adapters are always welcome: leave it out"},
    {"--lora-modules", "--adapter NAME=DIR names one, --adapters DIR a folder of them"},
    {"--max-loras", "here it is --max-device-adapters"},
    {"--max-cpu-loras", "here it is --max-adapters, and --host-tier-gb for their memory"},
    {"--lora-dtype", "adapters are computed with in --dtype: leave it out"},
    {"--lora-extra-vocab-size", "adapters with words of their own are not supported: leave it out"},
    {"--fully-sharded-loras", "with --tensor-parallel they always are: leave it out"},
    {"--gpu-memory-utilization",
     "--pool-gb GB says how much memory KV and adapters share; by default all that is left"},
    {"--tensor-parallel-size", kShare},
    {"-tp", kShare},
    {"--disable-custom-all-reduce", "here it is --collectives nccl"},
    {"--pipeline-parallel-size", kNotByDepth},
    {"-pp", kNotByDepth},
    {"--data-parallel-size", kSeveral},
    {"-dp", kSeveral},
    {"--distributed-executor-backend", "GPUs that share a model are in one process: leave it out"},
    {"--enable-prefix-caching", "it is on by default: leave it out"},
    {"--no-enable-prefix-caching", "here it is --no-prefix-cache"},
    {"--enable-chunked-prefill",
     "long prompts are always computed in chunks, of --max-num-batched-tokens: leave it out"},
    {"--no-enable-chunked-prefill",
     "long prompts are always computed in chunks; --max-num-batched-tokens sets their size"},
    {"--block-size", kPages},
    {"--num-gpu-blocks-override", kPool},
    {"--kv-cache-dtype", "the KV cache is of --dtype: leave it out"},
    {"--enforce-eager", "here it is --graphs off"},
    {"--cuda-graph-sizes", "here it is --max-graph-batch"},
    {"--quantization", kNoQuantization},
    {"-q", kNoQuantization},
    {"--tokenizer", "the checkpoint's own tokenizer.json is used: leave it out"},
    {"--trust-remote-code", "code of a checkpoint is never run: leave it out"},
    {"--enable-auto-tool-choice",
     "calls of tools are read unless --tool-call-parser is none: leave it out"},
    {"--download-dir", kNoDownload},
    {"--revision", kNoDownload},
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
    // vLLM: newer or rarer flags
    {"--scheduling-policy", "here it is --queue-order"},
    {"--allowed-origins", "here it is --cors-origins"},
    {"--disable-uvicorn-access-log", "here it is --no-request-log"},
    {"--disable-log-requests", "here it is --no-request-log"},
    {"--enable-log-requests", "each request has a line by default: leave it out"},
    {"--speculative-config", kNoDraft},
    {"--speculative-model", kNoDraft},
    {"--num-speculative-tokens", kNoDraft},
    {"--reasoning-parser", "what a model thinks comes as text of its answer: leave it out"},
    {"--root-path", "put a proxy in front that takes the prefix off"},
    {"--compilation-config", "here it is --graphs, and --max-graph-batch for the largest"},
    {"-O", "here it is --graphs, and --max-graph-batch for the largest"},
    {"--async-scheduling", "it is on by default: leave it out, or --no-overlap to end it"},
    // SGLang
    {"--model-path", "here it is --model"},
    {"--tokenizer-path", "the checkpoint's own tokenizer.json is used: leave it out"},
    {"--context-length", "here it is --max-model-len"},
    {"--mem-fraction-static",
     "--pool-gb GB says how much memory KV and adapters share; by default all that is left"},
    {"--max-running-requests", "here it is --max-num-seqs"},
    {"--max-queued-requests", "here it is --max-queue"},
    {"--max-total-tokens",
     "SGLang's sizes the cache, which --pool-gb does here; LoRAX's is --max-model-len here"},
    {"--chunked-prefill-size", kChunk},
    {"--max-prefill-tokens", kChunk},
    {"--schedule-policy", "here it is --queue-order"},
    {"--enable-priority-scheduling",
     "priorities count by default, the lowest first: leave it out; --queue-order arrival ends "
     "that"},
    {"--schedule-low-priority-values-first", "that is how it is here: leave it out"},
    {"--page-size", kPages},
    {"--random-seed", "requests bring their `seed`: leave it out"},
    {"--base-gpu-id", "here it is --gpus"},
    {"--tp-size", kShare},
    {"--tp", kShare},
    {"--dp-size", kSeveral},
    {"--lora-paths", "--adapter NAME=DIR names one, --adapters DIR a folder of them"},
    {"--max-loras-per-batch", "here it is --max-device-adapters"},
    {"--max-loaded-loras", "here it is --max-adapters, and --host-tier-gb for their memory"},
    {"--lora-target-modules", "each adapter brings its own: leave it out"},
    {"--lora-eviction-policy",
     "what gives way is weighed by what bringing it back takes and how often it was used: leave it "
     "out"},
    {"--lora-backend", kOwnKernels},
    {"--max-lora-chunk-size", kOwnKernels},
    {"--attention-backend", kOwnKernels},
    {"--enable-lora-overlap-loading", kOverlap},
    {"--lora-drain-wait-threshold", "here it is --max-passed-over, in requests"},
    {"--disable-radix-cache", "here it is --no-prefix-cache"},
    {"--disable-cuda-graph", "here it is --graphs off"},
    {"--cuda-graph-max-bs", "here it is --max-graph-batch"},
    {"--disable-overlap-schedule", "here it is --no-overlap"},
    {"--log-requests", "each request has a line by default: leave it out"},
    {"--enable-metrics", "/metrics is always there: leave it out"},
    {"--otlp-traces-endpoint", "here it is --otlp-endpoint"},
    // LoRAX
    {"--model-id", "here it is --model, and a folder"},
    {"--adapter-id", "here it is --adapter NAME=DIR"},
    {"--source", kNoDownload},
    {"--adapter-source", kNoDownload},
    {"--huggingface-hub-cache", kNoDownload},
    {"--num-shard", kShare},
    {"--sharded", kShare},
    {"--quantize", kNoQuantization},
    {"--max-concurrent-requests", "here it is --max-queue, for those that wait"},
    {"--max-input-length", "here it is --max-model-len, for prompt and answer together"},
    {"--max-batch-prefill-tokens", kChunk},
    {"--max-batch-total-tokens", kPool},
    {"--max-active-adapters", "here it is --max-device-adapters"},
    {"--adapter-cycle-time-s",
     "adapters take turns by request, not by time: --max-passed-over bounds how long one waits"},
    {"--compile", "here it is --graphs on"},
    {"--cuda-memory-fraction",
     "--pool-gb GB says how much memory KV and adapters share; by default all that is left"},
    {"--hostname", "here it is --host"},
    {"--json-output", "here it is --log-format json"},
    {"--cors-allow-origin", "here it is --cors-origins"},
}};

}  // namespace

std::string_view foreign_flag_hint(std::string_view flag) {
  const auto* const found = std::ranges::find(kHints, flag, &Hint::flag);
  return found == kHints.end() ? std::string_view() : found->text;
}

}  // namespace tandem
