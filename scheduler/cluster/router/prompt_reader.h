// A request's prompt in the order in which a prefix cache is likely to see it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "scheduler/cluster/prefixes/prompt_blocks.h"

namespace tandem {

// Reads the prompt of completions, text or ids; of several the first. For chat it reads the fields
// that templates write before the messages, then the messages in order. Members of unexpected types
// are read as they are: the engine rejects them. `key`: for PromptHasher. Thread-safe.
std::vector<PromptBlock> read_prompt_blocks(const nlohmann::json& body, bool chat,
                                            std::string_view model, std::uint64_t key);

}  // namespace tandem
