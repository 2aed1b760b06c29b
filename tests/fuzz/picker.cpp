// Input: Envoy's messages about one request in its external processing protocol, each after its
// length (two bytes, little-endian).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "scheduler/cluster/picker/envoy/ext_proc_messages.h"
#include "scheduler/cluster/picker/pick_request.h"
#include "scheduler/cluster/picker/pick_stream.h"
#include "scheduler/cluster/picker/picker.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

constexpr std::size_t kMostBody = 4096;
constexpr double kAnswerTokens = 58;
constexpr std::size_t kMostHeaders = 256;
constexpr TimePoint kNow = TimePoint() + std::chrono::hours(1);

// Decides like PickerHost in front of one engine with one adapter.
class OneEngine final : public PickDesk {
 public:
  OneEngine() : picker_(make_policy("affinity", {}).value(), {}) {
    const EngineIndex engine = picker_.cluster().add({"10.0.0.1", 1});
    picker_.engine_added(engine);
    EngineReport report;
    report.id = "e";
    report.model = "base";
    report.view.max_requests = 4;
    report.view.kv_tokens = report.view.kv_free_tokens = 1000;
    report.adapters = {{.name = "law", .rank = 8, .bytes = 9, .tier = AdapterTier::host}};
    TANDEM_CHECK(picker_.cluster().report(engine, std::move(report), true, kNow).ok());
  }

  Pick pick(const PickRequest& request) override {
    TANDEM_CHECK(!std::exchange(asked_, true), "two choices for one request");
    TANDEM_CHECK(request.body == body, "{} bytes of {}", request.body.size(), body.size());
    Wanted wanted;
    Pick pick;
    pick.refused = read_pick_request(request, kMostBody, kAnswerTokens, wanted);
    if (pick.refused) return pick;
    TANDEM_CHECK(wanted.prompt_tokens >= 0 &&
                     wanted.prompt_tokens <= static_cast<std::int64_t>(kMostBody) + 1,
                 "{} tokens", wanted.prompt_tokens);
    TANDEM_CHECK(wanted.expected_tokens > 0 && wanted.expected_tokens <= kAnswerTokens);
    TANDEM_CHECK(std::isfinite(wanted.slo_ttft_s) && wanted.slo_ttft_s >= 0);
    TANDEM_CHECK(std::isfinite(wanted.slo_token_s) && wanted.slo_token_s >= 0);
    return picker_.pick(std::move(wanted), request.subset, kNow);
  }
  void served(PickId id, std::string_view endpoint) override {
    (void)picker_.served(id, endpoint, kNow);
  }
  void over(PickId id, bool answered) override { picker_.over(id, answered, kNow); }
  // Checks that nothing is left of the request after its end.
  void settle() {
    picker_.settle(kNow + std::chrono::seconds(1));
    TANDEM_CHECK(picker_.running() == 0, "{} run", picker_.running());
  }

  std::string body;  // received so far

 private:
  Picker picker_;
  bool asked_ = false;
};

void check_reply(StreamReply reply) {
  TANDEM_CHECK(reply.body.size() <= kStreamPieceBytes, "{} bytes", reply.body.size());
  if (reply.phase == Phase::unknown) {
    TANDEM_CHECK(reply.refused && reply.refused->status >= 400 && reply.refused->status <= 503);
  }
  TANDEM_CHECK(!message_of(std::move(reply)).SerializeAsString().empty());
}

}  // namespace

void fuzz_picker(Bytes bytes) {
  OneEngine desk;
  {
    PickStream stream(desk, kMostBody);
    PickStream::Next next = PickStream::Next::go_on;
    while (bytes.size() > 2) {
      const auto length =
          std::to_integer<std::size_t>(bytes[0]) | (std::to_integer<std::size_t>(bytes[1]) << 8);
      bytes = bytes.subspan(2);
      const Bytes said = bytes.first(std::min(length, bytes.size()));
      bytes = bytes.subspan(said.size());
      envoy::service::ext_proc::v3::ProcessingRequest message;
      // gRPC itself refuses bytes that are no message.
      if (!message.ParseFromArray(said.data(), static_cast<int>(said.size()))) break;
      StreamEvent event = event_of(message);
      TANDEM_CHECK(event.headers.size() <= kMostHeaders, "{} headers", event.headers.size());
      if (event.phase == Phase::request_body) desk.body += event.body;
      std::vector<StreamReply> replies;
      const bool was_over = next != PickStream::Next::go_on;
      next = stream.take(std::move(event), replies);
      TANDEM_CHECK(!was_over || (next == PickStream::Next::malformed && replies.empty()));
      TANDEM_CHECK(next != PickStream::Next::malformed || replies.empty());
      for (StreamReply& reply : replies) check_reply(std::move(reply));
    }
  }
  desk.settle();
}

}  // namespace tandem::fuzz
