#include "base/http/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>

namespace tandem {
namespace {

constexpr int kWindowOfEither = 15 + 32;  // gzip or zlib, as the header says

struct Stream {
  Stream() {
    if (::inflateInit2(&state, kWindowOfEither) != Z_OK) throw std::bad_alloc();
  }
  ~Stream() { ::inflateEnd(&state); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  z_stream state{};
};

}  // namespace

ContentCoding content_coding(std::string_view header) {
  std::string name(header);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (name.empty() || name == "identity") return ContentCoding::identity;
  if (name == "gzip" || name == "x-gzip" || name == "deflate") return ContentCoding::deflated;
  return ContentCoding::unknown;
}

Inflated inflate_bytes(std::string_view packed, std::size_t max_bytes, std::string& plain) {
  Stream stream;
  z_stream& state = stream.state;
  std::array<char, 32768> block{};
  // zlib's pointer is non-const, but nothing is written through it. Bodies are below 4 GiB.
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  state.avail_in = static_cast<uInt>(packed.size());
  for (;;) {
    state.next_out = reinterpret_cast<Bytef*>(block.data());
    state.avail_out = static_cast<uInt>(block.size());
    const int result = ::inflate(&state, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END)
      return Inflated::malformed;  // including a premature end
    const std::size_t made = block.size() - state.avail_out;
    if (made > max_bytes - plain.size()) return Inflated::too_long;
    plain.append(block.data(), made);
    if (result != Z_STREAM_END) continue;
    if (state.avail_in == 0) return Inflated::done;
    if (::inflateReset(&state) != Z_OK) return Inflated::malformed;
  }
}

}  // namespace tandem
