// What an engine is set to where nobody says otherwise: the settings of the commands and the
// options of the engine both begin from here.
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
// Characters between two tokens of constrained JSON. Without a bound a model that likes line breaks
// makes nothing else of all its tokens.
inline constexpr int kMaxJsonWhitespace = 16;
// Of the handoff to CPU workers: how long they spin without work, the longest wait for them, and
// most tokens of one step. They stay awake from one cold start to the next where those are not
// rare: a virtual machine's core that rests may take milliseconds to come back
// (docs/cold-start.md).
inline constexpr double kWorkerSpinMs = 1000;
inline constexpr double kHandoffDeadlineMs = 200;
inline constexpr std::int32_t kHandoffTokens = 512;

}  // namespace tandem::engine_defaults
