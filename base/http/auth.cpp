#include "base/http/auth.h"

#include <cstddef>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::string_view kScheme = "bearer ";

bool has_scheme(std::string_view authorization) {
  if (authorization.size() < kScheme.size()) return false;
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char c = authorization[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != kScheme[i]) return false;
  }
  return true;
}

}  // namespace

bool authorized(std::string_view authorization, std::string_view key) {
  TANDEM_CHECK(!key.empty(), "an empty key would let everybody in");
  const std::string_view given =
      has_scheme(authorization) ? authorization.substr(kScheme.size()) : std::string_view{};
  // Every byte of the key is compared, whatever was given; volatile stops the compiler from ending
  // the loop early.
  volatile unsigned difference = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const unsigned char other =
        given.empty() ? 0 : static_cast<unsigned char>(given[i % given.size()]);
    difference = difference | (static_cast<unsigned char>(key[i]) ^ other);
  }
  return difference == 0;
}

}  // namespace tandem
