// The entry point for libFuzzer; TANDEM_FUZZ_TARGET is a function in targets.h.
#include <spdlog/spdlog.h>

#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::fuzz::TANDEM_FUZZ_TARGET({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
