// Formats of models that Tandem does not read, named so that a message can say what to fetch
// instead.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tandem {

// Messages about quantised weights end with this remedy.
inline constexpr std::string_view kTakeUnquantised =
    "Tandem serves weights of F32, F16 and BF16; take the unquantised checkpoint";

// Why the file or folder at `path` cannot be served, with the remedy, where its format is one that
// is known: GGUF, pickle, Meta's and Mistral's own. Empty: it is none of these.
std::string foreign_format(const std::filesystem::path& path);

// The format that a model's name on a hub promises, where Tandem does not read it: "GPTQ" of
// "TheBloke/Llama-2-7B-GPTQ". Empty: the name promises none of them.
std::string_view foreign_format_in_name(std::string_view name);

}  // namespace tandem
