// A request's prompt, as a prefix cache is likely to meet it: which of it comes first.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "scheduler/prefixes/prompt_blocks.h"

namespace tandem {

// Of completions the prompt, text or ids; of several the first. Of chat what templates write before
// the messages, then the messages in their order. Members of other types than they should have are
// read as they are: the engine refuses them. `key`: of PromptHasher. Thread-safe.
std::vector<PromptBlock> read_prompt_blocks(const nlohmann::json& body, bool chat,
                                            std::string_view model, std::uint64_t key);

}  // namespace tandem
