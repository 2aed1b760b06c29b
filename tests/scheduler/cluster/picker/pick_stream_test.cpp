#include "scheduler/cluster/picker/pick_stream.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using Next = PickStream::Next;

class FakeDesk final : public PickDesk {
 public:
  Pick pick(const PickRequest& request) override {
    asked.push_back(request);
    Pick pick;
    if (refused) {
      pick.refused = refused;
    } else {
      pick.id = 7;
      pick.endpoints = "10.0.0.1:1,10.0.0.1:2";
    }
    return pick;
  }
  void served(PickId id, std::string_view endpoint) override {
    EXPECT_EQ(id, 7U);
    told = endpoint;
  }
  void over(PickId id, bool answered) override {
    EXPECT_EQ(id, 7U);
    ++overs;
    in_full = answered;
  }

  std::vector<PickRequest> asked;
  std::optional<ErrorEnvelope> refused;
  std::string told;
  int overs = 0;
  bool in_full = false;
};

struct Talk {
  explicit Talk(FakeDesk& desk, BodyMode said, std::size_t most = 1 << 20)
      : stream(desk, most), mode(said) {}

  Next say(Phase phase, std::string body = {}, bool end = false, std::string served = {}) {
    StreamEvent event;
    event.phase = phase;
    event.body = std::move(body);
    event.end = end;
    event.served = std::move(served);
    event.request_mode = event.response_mode = mode;
    event.headers[":path"] = "/v1/completions";
    event.headers["content-type"] = type;
    replies.clear();
    return stream.take(std::move(event), replies);
  }
  std::string text() const {
    std::string all;
    for (const StreamReply& reply : replies) all += reply.body;
    return all;
  }

  PickStream stream;
  BodyMode mode;
  std::string type = "text/event-stream";
  std::vector<StreamReply> replies;
};

TEST(PickStream, AnswersABufferedBodyWithTheEndpoints) {
  FakeDesk desk;
  {
    Talk talk(desk, BodyMode::buffered);
    EXPECT_EQ(talk.say(Phase::request_headers), Next::go_on);
    ASSERT_EQ(talk.replies.size(), 1U);  // Envoy waits for the reply
    EXPECT_EQ(talk.replies[0].endpoints, "");
    EXPECT_EQ(talk.say(Phase::request_body, "{}", true), Next::go_on);
    ASSERT_EQ(talk.replies.size(), 1U);
    EXPECT_EQ(talk.replies[0].phase, Phase::request_body);
    EXPECT_EQ(talk.replies[0].endpoints, "10.0.0.1:1,10.0.0.1:2");
    EXPECT_FALSE(talk.replies[0].streamed);
    EXPECT_EQ(talk.say(Phase::response_headers, {}, false, "10.0.0.1:2"), Next::go_on);
    EXPECT_EQ(talk.say(Phase::response_body, "answer", true), Next::go_on);
    EXPECT_FALSE(talk.replies[0].streamed);
    EXPECT_EQ(desk.overs, 0);
  }
  ASSERT_EQ(desk.asked.size(), 1U);
  EXPECT_EQ(desk.asked[0].body, "{}");
  EXPECT_EQ(desk.told, "10.0.0.1:2");
  EXPECT_EQ(desk.overs, 1);
  EXPECT_TRUE(desk.in_full);
}

TEST(PickStream, GivesAStreamedBodyBackInPiecesBehindTheHeaders) {
  FakeDesk desk;
  Talk talk(desk, BodyMode::full_duplex);
  EXPECT_EQ(talk.say(Phase::request_headers), Next::go_on);
  EXPECT_TRUE(talk.replies.empty());
  const std::string half(kStreamPieceBytes, 'a');
  EXPECT_EQ(talk.say(Phase::request_body, half), Next::go_on);
  EXPECT_TRUE(talk.replies.empty());
  EXPECT_EQ(talk.say(Phase::request_body, "bc", true), Next::go_on);
  ASSERT_EQ(talk.replies.size(), 3U);
  EXPECT_EQ(talk.replies[0].phase, Phase::request_headers);
  EXPECT_EQ(talk.replies[0].endpoints, "10.0.0.1:1,10.0.0.1:2");
  EXPECT_EQ(talk.text(), half + "bc");
  EXPECT_FALSE(talk.replies[1].end);
  EXPECT_TRUE(talk.replies[2].end);
  EXPECT_TRUE(talk.replies[2].streamed);
  EXPECT_EQ(talk.say(Phase::response_headers), Next::go_on);
  EXPECT_EQ(talk.say(Phase::response_body, "piece"), Next::go_on);
  EXPECT_EQ(talk.text(), "piece");
  EXPECT_TRUE(talk.replies[0].streamed);
  EXPECT_FALSE(talk.replies[0].end);
}

TEST(PickStream, EndsAStreamedBodyWithItsTrailers) {
  FakeDesk desk;
  Talk talk(desk, BodyMode::full_duplex);
  EXPECT_EQ(talk.say(Phase::request_headers), Next::go_on);
  EXPECT_EQ(talk.say(Phase::request_body, "{}"), Next::go_on);
  EXPECT_EQ(talk.say(Phase::request_trailers), Next::go_on);
  ASSERT_EQ(talk.replies.size(), 3U);
  EXPECT_EQ(talk.replies[0].phase, Phase::request_headers);
  EXPECT_FALSE(talk.replies[1].end);
  EXPECT_EQ(talk.replies[2].phase, Phase::request_trailers);
}

TEST(PickStream, ChoosesAtTheHeadersWhereNoBodyComes) {
  FakeDesk desk;
  Talk talk(desk, BodyMode::full_duplex);
  EXPECT_EQ(talk.say(Phase::request_headers, {}, true), Next::go_on);
  ASSERT_EQ(talk.replies.size(), 1U);
  EXPECT_EQ(talk.replies[0].endpoints, "10.0.0.1:1,10.0.0.1:2");
  Talk none(desk, BodyMode::none);
  EXPECT_EQ(none.say(Phase::request_headers, {}, true), Next::go_on);
  EXPECT_EQ(none.replies[0].endpoints, "10.0.0.1:1,10.0.0.1:2");
  Talk unseen(desk, BodyMode::none);  // there is a body, but it is not sent
  EXPECT_EQ(unseen.say(Phase::request_headers), Next::end);
}

TEST(PickStream, EndsWithTheRefusal) {
  FakeDesk desk;
  desk.refused = ErrorEnvelope{429, "full", "engines_full", 1};
  {
    Talk talk(desk, BodyMode::full_duplex);
    EXPECT_EQ(talk.say(Phase::request_headers), Next::go_on);
    EXPECT_EQ(talk.say(Phase::request_body, "{}", true), Next::end);
    ASSERT_EQ(talk.replies.size(), 1U);
    EXPECT_EQ(talk.replies[0].refused->status, 429);
    EXPECT_EQ(talk.say(Phase::response_headers), Next::malformed);
  }
  EXPECT_EQ(desk.overs, 0);
}

TEST(PickStream, RefusesABodyThatIsTooLong) {
  FakeDesk desk;
  Talk talk(desk, BodyMode::full_duplex, 10);
  EXPECT_EQ(talk.say(Phase::request_headers), Next::go_on);
  EXPECT_EQ(talk.say(Phase::request_body, "0123456789"), Next::go_on);
  EXPECT_EQ(talk.say(Phase::request_body, "0"), Next::end);
  EXPECT_EQ(talk.replies[0].refused->status, 413);
  EXPECT_TRUE(desk.asked.empty());
}

TEST(PickStream, SaysWhichBodyModesThereAre) {
  FakeDesk desk;
  Talk talk(desk, BodyMode::other);
  EXPECT_EQ(talk.say(Phase::request_headers), Next::end);
  EXPECT_NE(talk.replies[0].refused->message.find("FULL_DUPLEX_STREAMED"), std::string::npos);
}

TEST(PickStream, RefusesAnOrderThatMakesNoSense) {
  FakeDesk desk;
  EXPECT_EQ(Talk(desk, BodyMode::buffered).say(Phase::request_body), Next::malformed);
  EXPECT_EQ(Talk(desk, BodyMode::buffered).say(Phase::unknown), Next::malformed);
  Talk early(desk, BodyMode::buffered);
  EXPECT_EQ(early.say(Phase::request_body), Next::malformed);
  EXPECT_EQ(early.say(Phase::request_headers), Next::malformed) << "it is over";
  Talk twice(desk, BodyMode::buffered);
  EXPECT_EQ(twice.say(Phase::request_headers), Next::go_on);
  EXPECT_EQ(twice.say(Phase::request_headers), Next::malformed);
  Talk after(desk, BodyMode::buffered);
  EXPECT_EQ(after.say(Phase::request_headers), Next::go_on);
  EXPECT_EQ(after.say(Phase::request_body, "{}", true), Next::go_on);
  EXPECT_EQ(after.say(Phase::request_body, "{}", true), Next::malformed);
}

TEST(PickStream, SaysNothingWhereItIsOnlyShown) {
  FakeDesk desk;
  Talk talk(desk, BodyMode::full_duplex);
  StreamEvent event;
  event.phase = Phase::request_headers;
  event.only_shown = true;
  EXPECT_EQ(talk.stream.take(std::move(event), talk.replies), Next::go_on);
  EXPECT_EQ(talk.say(Phase::request_body, "{}", true), Next::go_on);
  EXPECT_TRUE(talk.replies.empty());
  EXPECT_TRUE(desk.asked.empty());
}

TEST(PickStream, KnowsWhetherTheAnswerIsWholeWhenItsHeadersCome) {
  for (const std::string type : {"application/json", "text/event-stream; charset=utf-8"}) {
    FakeDesk desk;
    {
      Talk talk(desk, BodyMode::full_duplex);
      EXPECT_EQ(talk.say(Phase::request_headers, {}, true), Next::go_on);
      talk.type = type;
      EXPECT_EQ(talk.say(Phase::response_headers), Next::go_on);
    }
    EXPECT_EQ(desk.in_full, type == "application/json");
  }
}

// In any order of messages, each request is decided at most once, and each decision ends.
TEST(PickStream, SurvivesAnyOrderOfMessages) {
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 2000; ++i) {
    FakeDesk desk;
    if (random() % 4 == 0) desk.refused = ErrorEnvelope{503, "none", "no_engine", 1};
    {
      Talk talk(desk, static_cast<BodyMode>(random() % 4), 100);
      Next next = talk.say(Phase::request_headers, {}, random() % 8 == 0);
      while (next == Next::go_on && random() % 12 != 0) {
        next = talk.say(static_cast<Phase>(random() % 7), std::string(random() % 60, 'x'),
                        random() % 3 == 0);
      }
    }
    EXPECT_LE(desk.asked.size(), 1U);
    EXPECT_EQ(desk.overs, desk.refused ? 0 : static_cast<int>(desk.asked.size()));
  }
}

}  // namespace
}  // namespace tandem
