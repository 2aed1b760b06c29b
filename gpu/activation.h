// The functions by which feed-forward parts gate.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem {

enum class Activation : std::uint8_t {
  silu,       // x / (1 + exp(-x))
  gelu_tanh,  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel 2016)
};
constexpr std::string_view to_string(Activation activation) {
  return activation == Activation::silu ? "silu" : "gelu_tanh";
}

}  // namespace tandem
