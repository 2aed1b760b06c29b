#include "base/text/base64.h"

#include <openssl/evp.h>

#include <algorithm>

namespace tandem {

std::string to_base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // OpenSSL appends a zero byte
  const int count = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                    reinterpret_cast<const unsigned char*>(bytes.data()),
                                    static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(count));
  return text;
}

Result<std::string> from_base64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  const int count = text.size() % 4 != 0
                        ? -1  // OpenSSL would read past its end
                        : EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                          reinterpret_cast<const unsigned char*>(text.data()),
                                          static_cast<int>(text.size()));
  if (count < 0) return error(StatusCode::internal, "not base64");
  // OpenSSL's count includes the padding's zero bytes.
  std::size_t padding = 0;
  while (padding < std::min<std::size_t>(2, text.size()) &&
         text[text.size() - 1 - padding] == '=') {
    ++padding;
  }
  bytes.resize(static_cast<std::size_t>(count) - padding);
  return bytes;
}

}  // namespace tandem
