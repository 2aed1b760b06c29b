// Detects model formats that Tandem does not read, so that a message can say what to download
// instead.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tandem {

// The remedy at the end of messages about quantised weights.
inline constexpr std::string_view kTakeUnquantised =
    "Tandem serves weights of F32, F16 and BF16, the quantised formats of docs/models.md and GGUF "
    "files; take the unquantised checkpoint or a GGUF file of the model";

// Returns why the folder at `path` cannot be served, with the remedy, if its format is a known
// foreign one: pickle, Meta's or Mistral's own, or if it holds a GGUF file, which has to be named
// itself. Empty if it is none of these.
std::string foreign_format(const std::filesystem::path& path);

// Returns the unsupported format that a model's name on a hub implies: "EXL2" for
// "turboderp/Llama2-7B-exl2". Empty if the name implies none.
std::string_view foreign_format_in_name(std::string_view name);

}  // namespace tandem
