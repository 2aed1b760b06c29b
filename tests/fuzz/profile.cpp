// Input: a profile's JSON. An accepted profile must be unchanged after it is written and read
// again.
#include "engine/profile/profile.h"

#include "base/check.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {

void fuzz_profile(Bytes bytes) {
  const Result<Profile> profile = parse_profile(text_of(bytes));
  if (!profile) return;
  const std::string written = to_json(*profile);
  const Result<Profile> again = parse_profile(written);
  TANDEM_CHECK(again.ok(), "{}\n{}", again.status().message(), written);
  TANDEM_CHECK(to_json(*again) == written, "{}", written);
}

}  // namespace tandem::fuzz
