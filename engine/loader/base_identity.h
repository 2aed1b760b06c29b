// A digest that distinguishes base models of the same name.
//
//   32 hex digits: a SHA-256 of config, tokenizer and templates, of the headers of the weights'
//                  files, and of a sample of every tensor
//   "-" and 32 more, if everything was read: of every byte of the weights' files
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// How much of the weights is read. A sample takes some tenths of a second at most; the whole takes
// as long as the disk needs.
enum class BaseReading { sample, whole };

// Returns the identity of a checkpoint's folder, or of a GGUF file. `also` is further input that
// decides an answer, such as a chat template from elsewhere. Missing files other than the weights
// are part of the identity. Reads with several threads.
Result<std::string> base_identity(const std::filesystem::path& model, BaseReading reading,
                                  std::string_view also = {});

// Returns the identity of random weights (make_dummy_weights): from the folder's files if `model`
// is a folder, else from the name of the shape, and from the seed.
Result<std::string> dummy_base_identity(const std::filesystem::path& model, std::uint64_t seed,
                                        std::string_view also = {});

}  // namespace tandem
