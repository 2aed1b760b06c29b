// Tells two base models apart that go by one name.
//
//   32 hex digits: a SHA-256 of config, tokenizer and templates, of the headers of the safetensors
//                  files, and of a sample of every tensor
//   "-" and 32 more, where all was read: of every byte of the safetensors files
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// How much of the weights is read: a sample takes some tenths of a second at most, all of them as
// long as the disk takes.
enum class BaseReading { sample, whole };

// Of the folder of a checkpoint; `also`: what else decides about an answer, such as a chat template
// from elsewhere. Files that are not there, but for the weights, are part of what it is. Reads with
// several threads.
Result<std::string> base_identity(const std::filesystem::path& folder, BaseReading reading,
                                  std::string_view also = {});

// Of weights that are drawn (make_dummy_weights): the folder's files, if it is one, else the name
// of the shape, and the seed.
Result<std::string> dummy_base_identity(const std::filesystem::path& model, std::uint64_t seed,
                                        std::string_view also = {});

}  // namespace tandem
