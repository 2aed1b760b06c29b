// Input: the first byte selects the call; the rest is its body.
#include <string>
#include <vector>

#include "base/check.h"
#include "base/text/utf8.h"
#include "engine/server/cluster/relayed_call.h"
#include "engine/server/messages/errors.h"
#include "engine/server/messages/json_body.h"
#include "engine/server/messages/request/request_parsing.h"
#include "engine/server/messages/response_building.h"
#include "tests/engine/server/fake_service.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

constexpr std::int32_t kMaxModelLen = 512;
constexpr std::int32_t kMaxSequences = 64;

// Calls the parsers as routes.cpp does.
MaybeError take(std::string_view body, unsigned how, const TextCodec& text,
                std::vector<GenerationRequest>& requests) {
  nlohmann::json object;
  if (MaybeError failure = parse_json_body(body, object)) return failure;
  std::string inner;
  RelayedCall relayed;
  if ((how & 8) != 0) {
    if (MaybeError failure = parse_relayed(body, object, relayed, inner)) return failure;
    body = inner;
    object = nlohmann::json(object.at("request"));
    TANDEM_CHECK(nlohmann::json::parse(inner) == object, "{}", inner);
  }
  const ConversationRules rules{body, (how & 2) != 0};
  CompletionCall call;
  if ((how & 4) != 0) {
    if (MaybeError failure = parse_conversation(object, rules, call)) return failure;
    std::vector<TokenId> tokens;
    return encode_chat(call, text, tokens);
  }
  const bool chat = (how & 1) != 0;
  if (MaybeError failure = parse_call(object, chat, kMaxSequences, call, rules)) return failure;
  if (MaybeError failure = make_requests(call, text, kMaxModelLen, requests)) return failure;
  return (how & 8) != 0 ? take_up(relayed, call.stream, requests) : std::nullopt;
}

}  // namespace

void fuzz_request(Bytes bytes) {
  if (bytes.empty()) return;
  const ByteCodec codec;
  std::vector<GenerationRequest> requests;
  const MaybeError failure =
      take(text_of(bytes.subspan(1)), std::to_integer<unsigned>(bytes[0]), codec, requests);
  if (failure) {
    // A client's bytes never cause a server error, and the answer can be sent.
    TANDEM_CHECK(failure->status >= 400 && failure->status < 500, "{} {}", failure->status,
                 failure->message);
    TANDEM_CHECK(!dump(error_json(*failure)).empty());
    return;
  }
  for (const GenerationRequest& request : requests) {
    const auto length = static_cast<std::int64_t>(request.prompt.size()) + request.max_tokens;
    TANDEM_CHECK(length <= kMaxModelLen, "{} + {}", request.prompt.size(), request.max_tokens);
    TANDEM_CHECK(request.n >= 1 && request.n <= kMaxSequences, "n {}", request.n);
    for (const TokenId token : request.prompt) {
      TANDEM_CHECK(token >= 0 && static_cast<std::size_t>(token) < codec.vocab_size(), "{}", token);
    }
  }
}

}  // namespace tandem::fuzz
