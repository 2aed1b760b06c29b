// Functions that give untrusted bytes to the parsers, one per parser. Each accepts any bytes, and
// aborts (TANDEM_CHECK or a sanitizer) if the parser breaks a guarantee. A fuzzer calls them
// (fuzzer.cpp), and a test replays the seeds (replay_test.cpp).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace tandem::fuzz {

using Bytes = std::span<const std::byte>;

inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
// Splits at the first zero byte.
inline std::pair<std::string_view, std::string_view> split_text(std::string_view text) {
  const std::size_t zero = text.find('\0');
  if (zero == std::string_view::npos) return {text, {}};
  return {text.substr(0, zero), text.substr(zero + 1)};
}

void fuzz_adapter(Bytes bytes);
void fuzz_answer(Bytes bytes);
void fuzz_constraint(Bytes bytes);
void fuzz_control(Bytes bytes);
void fuzz_gguf(Bytes bytes);
void fuzz_http(Bytes bytes);
void fuzz_mailbox(Bytes bytes);
void fuzz_model(Bytes bytes);
void fuzz_picker(Bytes bytes);  // only if gRPC is available
void fuzz_profile(Bytes bytes);
void fuzz_quantised(Bytes bytes);
void fuzz_recording(Bytes bytes);
void fuzz_request(Bytes bytes);
void fuzz_safetensors(Bytes bytes);
void fuzz_template(Bytes bytes);
void fuzz_tokenizer(Bytes bytes);
void fuzz_tool_calls(Bytes bytes);

}  // namespace tandem::fuzz
