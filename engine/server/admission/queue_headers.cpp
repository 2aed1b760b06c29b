#include "engine/server/admission/queue_headers.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include "base/parse_number.h"

namespace tandem {
namespace {

constexpr QueueHeader kQueueHeaders[] = {
    {"x-slo-ttft-ms", "number",
     "Milliseconds until the first token, from 0 (no deadline) to 86400000: a request that would "
     "miss it is given up before it begins, with 429 and Retry-After"},
    {"x-slo-tpot-ms", "number",
     "Milliseconds between tokens, from 0 (none) to 86400000: counted, and told to routers"},
    {"x-gateway-inference-fairness-id", "string",
     "Whose request it is, where tenants are served fairly; 1 to 128 printable characters"},
};
constexpr const char* kTtft = kQueueHeaders[0].name;
constexpr const char* kTpot = kQueueHeaders[1].name;
constexpr const char* kTenant = kQueueHeaders[2].name;

constexpr double kMostMs = 86'400'000;  // one day
constexpr std::size_t kLongestTenant = 128;

MaybeError take_milliseconds(const HttpRequest& request, const char* name, double& seconds) {
  const auto found = request.headers.find(name);
  if (found == request.headers.end()) return std::nullopt;
  const double value = parse_number<double>(found->second).value_or(-1);
  if (value < 0 || value > kMostMs) {
    return bad_field(name,
                     "The header '{}' must be one number of milliseconds from 0 (none) to {:.0f}, "
                     "as in '{}: 500'",
                     name, kMostMs, name);
  }
  seconds = value / 1e3;
  return std::nullopt;
}

// A digest suffices to distinguish tenants; the text itself may be a secret and is not kept.
std::string digest_of(std::string_view text) {
  constexpr std::size_t kHash = 32;
  constexpr std::size_t kKept = 16;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, kHash> hash{};
  if (EVP_Digest(text.data(), text.size(), hash.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    return {};
  }
  std::string digest;
  for (std::size_t i = 0; i < kKept; ++i) {
    digest += kDigits[hash[i] >> 4U];
    digest += kDigits[hash[i] & 15U];
  }
  return digest;
}

}  // namespace

MaybeError take_queue_headers(const HttpRequest& request, const Objectives& defaults,
                              GenerationRequest& generation) {
  generation.ttft_deadline_s = defaults.ttft_s;
  generation.tpot_deadline_s = defaults.tpot_s;
  if (auto error = take_milliseconds(request, kTtft, generation.ttft_deadline_s)) return error;
  if (auto error = take_milliseconds(request, kTpot, generation.tpot_deadline_s)) return error;
  std::string& tenant = generation.tenant;
  if (const auto found = request.headers.find(kTenant); found != request.headers.end()) {
    const std::string& id = found->second;
    const bool good = !id.empty() && id.size() <= kLongestTenant &&
                      std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (!good) {
      return bad_field(kTenant,
                       "The header '{}' must be 1 to {} printable ASCII characters without "
                       "spaces, as in '{}: team-a'",
                       kTenant, kLongestTenant, kTenant);
    }
    tenant = id;
  } else if (tenant.size() > kLongestTenant) {  // from the body's `user`, which may have any length
    tenant = "user:" + digest_of(tenant);
  } else if (const auto key = request.header("authorization"); tenant.empty() && !key.empty()) {
    tenant = "key:" + digest_of(key);
  }
  return std::nullopt;
}

std::span<const QueueHeader> queue_headers() {
  return kQueueHeaders;
}

}  // namespace tandem
