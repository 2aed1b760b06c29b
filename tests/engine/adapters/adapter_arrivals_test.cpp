// Adapters are used while they arrive. Whatever the sender does, the text is that of the adapter
// with the digest, or there is none.
#include "tests/engine/adapters/arriving_adapters.h"
#include "tests/support/skip_under_tsan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ArrivingAdapters, AreComputedFromByWorkersBeforeTheLastByteHasCome) {
  Sender sender(right_, dir_.path() / "incoming");
  auto reading = read(sender);
  const auto generation = compute_from(sender);
  EXPECT_EQ(sender.left(), 1U) << "what a worker computed, it computed before that";
  sender.send_rest();
  const Status read = reading.get();
  ASSERT_TRUE(read.ok()) << read.message();
  const Collected got = collect(*generation)[0];
  EXPECT_TRUE(got.error.ok()) << got.error.message();
  EXPECT_EQ(got.tokens, expected_);
  EXPECT_TRUE(arrival_->is_served());
  EXPECT_GT(arrival_->lead().count(), 0);
  EXPECT_EQ(engine_->adapters()[0].path, "") << "nobody may be sent to a folder that goes";
  arrival_->settle(right_);
  EXPECT_EQ(engine_->adapters()[0].path, right_);
  EXPECT_TRUE(wait_until([&] { return engine_->stats().adapter_loads == 1U; }));
  EXPECT_EQ(run(*engine_, request())[0].tokens, expected_);
  EXPECT_EQ(engine_->adapter_store().early_arrivals(), 1U);
}

// Workers begin with the layers that have arrived, and the plan knows when the last is expected.
TEST_F(ArrivingAdapters, ArePlannedWithAsLongAsTheRestIsExpectedToTake) {
  constexpr std::chrono::milliseconds kRest{50};
  Sender sender(right_, dir_.path() / "incoming");
  auto reading = read(sender);
  sender.send(sender.left() - 1);
  ASSERT_TRUE(wait_until_shown());
  const auto slow = engine_->adapter_store().find("a")->home().copy().reading;
  // The remaining time falls while the last layer may still be as fast as those before it, and
  // rises once it is late.
  ASSERT_TRUE(wait_until([&] {
    const auto rest = slow->rest();
    return rest >= kRest && slow->rest() > rest;
  })) << "the sender stands still";
  const std::uint64_t before = worker_jobs();
  const auto generation = engine_->submit(request()).value();
  EXPECT_TRUE(wait_until([&] { return worker_jobs() > before; }));
  sender.send_rest();
  expect_served(reading.get(), *generation);
  const std::vector<ColdStart> starts = engine_->cold_starts();
  ASSERT_EQ(starts.size(), 1U);
  ASSERT_FALSE(starts[0].steps.empty());
  EXPECT_GE(starts[0].steps[0].planned_s, std::chrono::duration<double>(kRest).count());
  // With slow workers the load comes first (g), but no step has waited for it (w).
  EXPECT_THAT(starts[0].steps[0].who.front(), AnyOf('c', 'g')) << "workers had what had come";
}

TEST_F(ArrivingAdapters, ComeFromAnotherWhereTheFirstDiesAfterItWasUsed) {
  Sender dies(right_, dir_.path() / "first");
  auto first = read(dies);
  const auto generation = compute_from(dies);
  dies.writing->end({StatusCode::unavailable, "it broke off"});
  EXPECT_THAT(first.get().message(), HasSubstr("it broke off"));
  EXPECT_TRUE(is_named()) << "who asks for it now waits for the next, too";
  Sender sends(right_, dir_.path() / "second");
  auto second = read(sends);
  sends.send_rest();
  expect_served(second.get(), *generation);
  EXPECT_GE(engine_->stats().replays, 1U);
}

// A sender that is silent between two bytes delays the step that waits for the layer and all steps
// behind it, but for no longer than the second that the rest may take.
TEST_F(ArrivingAdapters, HoldUpStepsForABoundedTimeWhereTheSenderIsSilent) {
  TANDEM_SKIP_UNDER_TSAN();
  expect(AdapterArrival::kLongestShown);
  const GenerationRequest of_base = greedy({5, 17, 300}, 4);
  const std::vector<TokenId> expected_of_base = run(*engine_, of_base)[0].tokens;
  Sender falls_silent(right_, dir_.path() / "incoming");
  auto reading = read(falls_silent);
  const auto generation = compute_from(falls_silent);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run(*engine_, of_base)[0].tokens, expected_of_base);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10))
      << "the sender has not said a word, and may not for a minute";
  EXPECT_EQ(falls_silent.left(), 1U);
  EXPECT_TRUE(is_named());
  falls_silent.send_rest();
  expect_served(reading.get(), *generation);
  EXPECT_GE(engine_->stats().replays, 1U) << "what the step computed is of no account";
}

TEST_F(ArrivingAdapters, AreToldToBeLostWhereTheSenderStaysSilent) {
  TANDEM_SKIP_UNDER_TSAN();
  expect(AdapterArrival::kLongestShown);
  Sender falls_silent(right_, dir_.path() / "incoming");
  auto reading = read(falls_silent);
  const auto generation = compute_from(falls_silent);
  // The step has ended without the layer: its sequences are computed again in a later step.
  EXPECT_TRUE(wait_until([&] { return engine_->stats().replays >= 1U; }));
  falls_silent.writing->end({StatusCode::unavailable, "it was silent for too long"});
  EXPECT_FALSE(reading.get().ok());
  arrival_->fail({StatusCode::unavailable, "nobody gives it"});
  const Collected got = collect(*generation)[0];
  EXPECT_EQ(got.error.message(), "nobody gives it");
  EXPECT_THAT(got.tokens, IsEmpty());
  EXPECT_FALSE(is_named());
}

TEST_F(ArrivingAdapters, TakeTheSetsThatTheyAreInWithThemWhenTheyFail) {
  Sender dies(right_, dir_.path() / "incoming");
  auto reading = read(dies);
  dies.send(dies.left() - 1);
  ASSERT_TRUE(wait_until_shown());
  GenerationRequest twice = request();
  twice.adapter.clear();
  twice.adapters = {{"a", 2}};
  const auto generation = engine_->submit(std::move(twice)).value();
  EXPECT_EQ(engine_->adapter_store().sums().size(), 1U);
  dies.writing->end({StatusCode::unavailable, "it broke off"});
  EXPECT_FALSE(reading.get().ok());
  arrival_->fail({StatusCode::unavailable, "nobody gives it"});
  EXPECT_FALSE(collect(*generation)[0].error.ok());
  EXPECT_THAT(engine_->adapter_store().sums(), IsEmpty());
}

// As from a folder: its requests' tokens, and the template of its chats.
TEST(ArrivingTokenizer, IsTheAdaptersFromItsFirstRequestOn) {
  const std::filesystem::path model = "data/families/adapters_tokens";
  const std::filesystem::path from = model / "adapters/grown-tokens";
  const testing::TempDir dir;
  const auto loaded = TestEngine::load(model, DType::f32, small_engine_options());
  Engine& engine = *loaded->engine;
  const AdapterLease known = engine.adapter_store().find("grown-tokens");
  AdapterArrival arrival(
      engine.adapter_store(), "far", known->contents().digest, known->bytes(), [](bool) {},
      kLongestHeld);
  Sender sender(from.string(), dir.path() / "incoming");
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    std::filesystem::copy_file(from / file, sender.folder() / file);
  }
  auto reading =
      std::async(std::launch::async, [&] { return arrival.read(sender.folder(), sender.writing); });
  sender.send(sender.left() - 1);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!engine.has_adapter("far") && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  ASSERT_NE(known->tokenizer(), nullptr);
  EXPECT_EQ(engine.adapter_tokenizer("far"), known->tokenizer());
  const std::string text = *read_text_file(from / "chat_template.jinja", 1 << 20);
  EXPECT_EQ(engine.adapter_folder("far").read("chat_template.jinja").value(), text);
  const auto request = [](const char* adapter) { return greedy({5, 512, 7, 515}, 6, adapter); };
  const auto early = engine.submit(request("far")).value();
  sender.send_rest();
  ASSERT_TRUE(reading.get().ok());
  std::filesystem::rename(sender.folder(), dir.path() / "kept");
  EXPECT_EQ(engine.adapter_folder("far").read("chat_template.jinja").value(), text);
  arrival.settle((dir.path() / "kept").string());
  EXPECT_EQ(engine.adapter_folder("far").read("chat_template.jinja").value(), text);
  const Collected expected = run(engine, request("grown-tokens"))[0];
  const Collected got = collect(*early)[0];
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.text, expected.text);
  for (const char* file : {"tokenizer.json", "chat_template.jinja"}) {
    EXPECT_TRUE(engine.open_adapter_file(known->contents().digest, file).ok()) << file;
  }
}

TEST_F(ArrivingAdapters, AreNobodysWhereTheOnlyOneLies) {
  Sender lies(wrong_, dir_.path() / "incoming");
  auto reading = read(lies);
  const auto generation = compute_from(lies);
  lies.send_rest();
  const Status read = reading.get();
  EXPECT_EQ(read.code(), StatusCode::invalid_argument);
  EXPECT_THAT(read.message(), HasSubstr("holds other weights"));
  EXPECT_FALSE(arrival_->is_served());
  arrival_->fail({StatusCode::unavailable, "nobody gives it"});
  const Collected got = collect(*generation)[0];
  EXPECT_EQ(got.error.message(), "nobody gives it");
  EXPECT_THAT(got.tokens, IsEmpty()) << "no token of it may have been sent";
  EXPECT_FALSE(is_named());
  EXPECT_TRUE(wait_until([&] { return engine_->adapter_store().host_tier().used() == 0; }));
}

TEST_F(ArrivingAdapters, AreRefusedAtOnceInAnotherShape) {
  Sender lies(flat_, dir_.path() / "first");
  lies.send_rest();
  const Status refused = read(lies).get();
  EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
  EXPECT_THAT(refused.message(), HasSubstr("bytes of weights"));
  EXPECT_FALSE(is_named());
  Sender sends(right_, dir_.path() / "second");
  sends.send_rest();
  const Status read_second = read(sends).get();
  EXPECT_TRUE(read_second.ok()) << read_second.message();
}

TEST_F(ArrivingAdapters, ServeThoseWhoBeganWhenTheyAreUnloaded) {
  Sender sender(right_, dir_.path() / "incoming");
  auto reading = read(sender);
  const auto generation = compute_from(sender);
  EXPECT_TRUE(engine_->unload_adapter("a").ok());
  sender.send_rest();
  ASSERT_TRUE(reading.get().ok());
  EXPECT_TRUE(arrival_->is_served()) << "nobody shall load it again";
  const std::weak_ptr<const ServedAdapter> reader = arrival_->settle(right_);
  EXPECT_FALSE(reader.expired()) << "until then the folder may be read again, and has to stay";
  EXPECT_EQ(collect(*generation)[0].tokens, expected_);
  EXPECT_FALSE(is_named());
}

TEST_F(ArrivingAdapters, GiveWayToOneThatSomebodyLoadsMeanwhile) {
  Sender sender(wrong_, dir_.path() / "incoming");
  auto reading = read(sender);
  const auto generation = compute_from(sender);
  EXPECT_TRUE(engine_->load_adapter("a", right_, false, false).ok());
  sender.send_rest();
  EXPECT_FALSE(reading.get().ok());
  arrival_->fail({StatusCode::unavailable, "nobody gives it"});
  EXPECT_EQ(collect(*generation)[0].error.message(), "nobody gives it");
  EXPECT_EQ(run(*engine_, request())[0].tokens, expected_) << "what was loaded stays";
}

TEST_F(ArrivingAdapters, AreNotShownUnderANameThatIsServed) {
  EXPECT_TRUE(engine_->load_adapter("a", wrong_, false, false).ok());
  Sender sender(right_, dir_.path() / "incoming");
  sender.send_rest();
  EXPECT_TRUE(read(sender).get().ok());
  EXPECT_FALSE(arrival_->is_served());
  EXPECT_NE(engine_->adapters()[0].digest, digest_);
}

TEST_F(ArrivingAdapters, LetTheStoreStop) {
  Sender sender(right_, dir_.path() / "incoming");
  auto reading = read(sender);
  auto generation = compute_from(sender);
  engine_->adapter_store().stop();
  sender.send_rest();
  EXPECT_TRUE(reading.get().ok());
  generation.reset();
}

TEST_F(ArrivingAdapters, AreRefusedAtTheFirstDamageAndNeverShown) {
  struct Damage {
    const char* what;
    std::size_t at;
    char byte;
  };
  for (const auto& [what, at, byte] :
       {Damage{"claims a header of", 6, '\x01'}, Damage{"adapter_model.safetensors", 8, '['}}) {
    Sender sender(right_, dir_.path() / ("incoming" + std::to_string(at)));
    sender.change(at, byte);
    auto reading = read(sender);
    sender.send(sender.left() - 1);
    const Status refused = reading.get();
    EXPECT_EQ(refused.code(), StatusCode::invalid_argument) << "the last byte is not waited for";
    EXPECT_THAT(refused.message(), HasSubstr(what));
    EXPECT_FALSE(shown_);
  }
  // Makes the last value of the last tensor a NaN.
  Sender sender(right_, dir_.path() / "nan");
  for (std::size_t i = 1; i <= 4; ++i) sender.change(sender.left() - i, '\x7f');
  sender.change(sender.left() - 2, '\xff');
  sender.send_rest();
  EXPECT_THAT(read(sender).get().message(), HasSubstr("holds a NaN"));
  arrival_->fail({StatusCode::unavailable, "nobody gives it"});
  EXPECT_FALSE(is_named());
  EXPECT_EQ(engine_->adapter_store().host_tier().used(), 0U);
}

}  // namespace
}  // namespace tandem::test
