// Default values of an engine's settings, shared by the commands' settings and the engine's
// options.
#pragma once

#include <cstdint>

namespace tandem::engine_defaults {

inline constexpr std::int32_t kMaxNumSeqs = 256;
inline constexpr std::int32_t kMaxNumBatchedTokens = 512;
inline constexpr std::int32_t kMaxQueue = 4096;
inline constexpr std::int32_t kMaxPassedOver = 64;
inline constexpr std::int32_t kPageTokens = 16;
inline constexpr std::int32_t kMaxAdapters = 4096;
inline constexpr std::int32_t kMaxDeviceAdapters = 1024;
inline constexpr std::int32_t kMaxLoraRank = 512;
inline constexpr std::int32_t kGrammarCacheMb = 64;
// The maximal number of whitespace characters between two tokens of constrained JSON. Without a
// bound, a model that favours line breaks may spend all of its tokens on them.
inline constexpr int kMaxJsonWhitespace = 16;
// The handoff to CPU workers: how long workers spin without work, the longest wait for them, and
// the maximal number of tokens of one step. Workers stay awake from one cold start to the next if
// those are frequent, because an idle core of a virtual machine may take milliseconds to wake up
// (docs/cold-start.md).
inline constexpr double kWorkerSpinMs = 1000;
inline constexpr double kHandoffDeadlineMs = 200;
inline constexpr std::int32_t kHandoffTokens = 512;

}  // namespace tandem::engine_defaults
