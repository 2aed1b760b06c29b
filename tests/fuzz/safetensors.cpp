// Input: a whole file.
#include "engine/loader/safetensors/safetensors.h"

#include "base/check.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {

void fuzz_safetensors(Bytes bytes) {
  static const MemoryFile file;
  file.write(text_of(bytes));
  const Result<SafetensorsFile> opened = SafetensorsFile::open(file.path());
  if (!opened) return;
  std::size_t total = 0;
  unsigned sum = 0;
  for (const auto& [name, info] : opened->header().tensors()) {
    TANDEM_CHECK(opened->find(name) == &info);
    for (const std::byte byte : opened->bytes(info)) sum += std::to_integer<unsigned>(byte);
    total += info.end - info.begin;
    TANDEM_CHECK(!to_string(info).empty());
  }
  TANDEM_CHECK(total <= bytes.size(), "{} bytes of {}, sum {}", total, bytes.size(), sum);
}

}  // namespace tandem::fuzz
