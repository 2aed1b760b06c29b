// The patterns behind the names of 'tokenizer.ggml.pre' in GGUF files.
#pragma once

#include <array>
#include <string_view>

#include "base/status.h"

namespace tandem {

// How a byte-level tokenizer splits a text into words.
struct PreTokenizerRow {
  std::string_view name;
  std::array<std::string_view, 2> patterns;  // applied in this order; empty: none
  bool ignores_merges = false;               // a word that is a token is not split
  bool adds_bos = false;                     // if the file does not say
  bool composes = false;                     // texts are normalised to NFC
};

// Refuses names without a row: splitting by another pattern would give other tokens.
Result<PreTokenizerRow> find_pre_tokenizer(std::string_view name);

}  // namespace tandem
