// What an engine and a process that compiles for it say to each other over a socket: frames of a
// kind and a number of bytes.
//
//   engine                         process
//   vocabulary ------------------->          GrammarVocabulary::to_bytes(), once
//              <------------------- ready
//   job        ------------------->          CompileJob::to_bytes()
//              <------------------- compiled (encode_grammar()), refused (why) or too_large (why)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "engine/service/generation.h"

namespace tandem {

enum class FrameKind : std::uint32_t { vocabulary, ready, job, compiled, refused, too_large };

struct FrameHead {
  FrameKind kind;
  std::uint32_t bytes;  // that follow
};

// Of a frame: what compiling brings may have, and what a vocabulary takes.
inline constexpr std::size_t kMostCompiledBytes = std::size_t{32} << 20;
inline constexpr std::size_t kMostVocabularyBytes = std::size_t{256} << 20;

struct CompileJob {
  TextConstraint constraint;
  Duration cpu = {};  // processor time that it may take

  std::string to_bytes() const;
  static Result<CompileJob> from_bytes(std::string_view bytes);
};

}  // namespace tandem
