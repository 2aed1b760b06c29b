#include "engine/batching/line/generation_state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tandem {
namespace {

OutputDelta last() {
  OutputDelta delta;
  delta.finish = FinishReason::stop;
  return delta;
}

TEST(GenerationState, TellsOfNewsThatComesAndOfNewsThatIsThere) {
  const auto state = std::make_shared<GenerationState>(1);
  GenerationHandle reader(state);
  state->push({}, {});
  int told = 0;
  reader.on_news([&] { ++told; });
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(reader.next(Duration::zero()));
  EXPECT_FALSE(reader.next(Duration::zero()));
  state->push(last(), {});
  EXPECT_EQ(told, 2);
  EXPECT_FALSE(reader.done());
  EXPECT_TRUE(reader.next(Duration::zero()));
  EXPECT_TRUE(reader.done());
}

TEST(GenerationState, SaysNothingBeforeThereIsNews) {
  const auto state = std::make_shared<GenerationState>(1);
  GenerationHandle reader(state);
  int told = 0;
  reader.on_news([&] { ++told; });
  EXPECT_EQ(told, 0);
}

TEST(GenerationState, TellsNobodyAfterTheReaderHasGone) {
  for (int round = 0; round < 200; ++round) {
    const auto state = std::make_shared<GenerationState>(1);
    auto reader = std::make_unique<GenerationHandle>(state);
    std::atomic<bool> alive{true};
    std::atomic<int> told{0};
    std::atomic<int> told_late{0};
    reader->on_news([&] {
      ++told;
      if (!alive) ++told_late;
    });
    std::thread engine([&] {
      for (int i = 0; i < 50; ++i) state->push({}, {});
      state->push(last(), {});
    });
    while (told == 0) std::this_thread::yield();
    reader.reset();
    alive = false;
    engine.join();
    EXPECT_EQ(told_late, 0);
    EXPECT_TRUE(state->cancelled());
  }
}

TEST(GenerationState, TellsOfALostContinuationOnceAndAfterWhatCameBefore) {
  const auto state = std::make_shared<GenerationState>(2);
  GenerationHandle reader(state);
  int told = 0;
  reader.on_news([&] { ++told; });
  OutputDelta delta;
  delta.index = 1;
  delta.text = "before";
  state->push(delta, {});
  state->lose(1);
  state->lose(1);
  EXPECT_EQ(told, 2);
  delta.text = "after";
  state->push(delta, {});
  EXPECT_EQ(reader.next(Duration::zero())->text, "before");
  const auto lost = reader.next(Duration::zero());
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->index, 1);
  EXPECT_EQ(lost->finish, FinishReason::failed);
  EXPECT_EQ(lost->error.code(), StatusCode::internal);
  EXPECT_FALSE(reader.next(Duration::zero()));
  EXPECT_FALSE(reader.done());
  state->push(last(), {});
  EXPECT_TRUE(reader.next(Duration::zero()));
  EXPECT_TRUE(reader.done());
}

}  // namespace
}  // namespace tandem
