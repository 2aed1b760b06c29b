// The protocol between an engine and its compile process, over a socket: frames with a kind and a
// number of bytes.
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
  std::uint32_t bytes;  // number of bytes after the head
};

// The limits on frames with a compiled constraint and with a vocabulary.
inline constexpr std::size_t kMostCompiledBytes = std::size_t{32} << 20;
inline constexpr std::size_t kMostVocabularyBytes = std::size_t{256} << 20;

struct CompileJob {
  TextConstraint constraint;
  Duration cpu = {};  // limit on its processor time

  std::string to_bytes() const;
  static Result<CompileJob> from_bytes(std::string_view bytes);
};

}  // namespace tandem
