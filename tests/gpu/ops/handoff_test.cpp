// Offer and accept compared with their host twins.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "tests/gpu/ops/handoff_stage.h"

namespace tandem {
namespace {

class Handoff : public HandoffTest {
 protected:
  // A random group without rows.
  TestGroup any_group(std::size_t modules, std::int64_t mailboxes) {
    TestGroup group;
    for (std::size_t m = 0; m < modules; ++m) {
      group.ranks.push_back(static_cast<std::int32_t>(pick(0, 3) == 0 ? 0 : pick(1, 20)));
    }
    group.mailbox = static_cast<std::int32_t>(pick(0, mailboxes - 1));
    group.workers = random_() & random_() & random_();
    if (group.workers == 0) group.workers = std::uint64_t{1} << pick(0, 63);
    group.cpu = pick(0, 3) != 0;
    group.xa = pick(0, 1) == 0;
    group.a_ready = pick(0, 2) == 0;
    group.b_ready = pick(0, 1) == 0;
    return group;
  }

  // The next job starts from the device's result, because each side rounds once.
  void take_over_result(Stage& stage) {
    const std::vector<std::byte> result = stage.out->download(*stream_);
    std::memcpy(stage.out->host().data, result.data(), result.size() - 1);
  }
};

TEST_F(Handoff, DecidesTicketsFromMasksReadyWordsAndBrokenMailboxes) {
  // The ticket that must follow from (cpu, xa, A is there, B is there), and a broken mailbox.
  const auto want = [](bool cpu, bool xa, bool a, bool b, bool broken) {
    if ((!cpu && !xa) || (a && b)) return Ticket::gpu;
    if (broken) return Ticket::dropped;
    if (xa && b) return Ticket::cpu_xa;
    return cpu ? Ticket::cpu : Ticket::dropped;
  };
  Stage stage;
  std::vector<std::uint32_t> tickets;
  for (int bits = 0; bits < 32; ++bits) {
    TestGroup group;
    group.count = 1 + bits % 3;
    group.ranks = {4};
    group.cpu = (bits & 1) != 0;
    group.xa = (bits & 2) != 0;
    group.a_ready = (bits & 4) != 0;
    group.b_ready = (bits & 8) != 0;
    group.mailbox = bits >> 4;
    stage.scene.groups.push_back(group);
    tickets.push_back(static_cast<std::uint32_t>(
        want(group.cpu, group.xa, group.a_ready, group.b_ready, group.mailbox == 1)));
  }
  stage.scene.broken = {1};
  lay_out(stage);
  run(stage, false);
  EXPECT_EQ(stage.d_tickets->download(*stream_), tickets);
  judge(stage, "all combinations");
}

TEST_F(Handoff, AddsWhatTheWorkersAnswerInEveryDtype) {
  for (const DType dtype : kDtypes) {
    for (const DType out : {dtype, DType::f32}) {
      for (const bool xa : {false, true}) {
        TestScene scene;
        scene.dtype = dtype;
        scene.out_dtype = out;
        scene.in = 51;
        scene.outputs = {33, 8, 140};
        scene.groups = {{5, {3, 16, 40}}, {130, {8, 8, 8}}, {1, {1, 64, 2}}};
        for (TestGroup& group : scene.groups) group.xa = group.b_ready = xa;
        check(scene, false, fmt::format("{} into {} xa {}", to_string(dtype), to_string(out), xa));
      }
    }
  }
}

TEST_F(Handoff, AddsBiasesOnce) {
  for (const DType dtype : kDtypes) {
    for (const bool xa : {false, true}) {
      TestScene scene;
      scene.dtype = scene.out_dtype = dtype;
      scene.outputs = {33, 8, 140};
      scene.biases = true;
      scene.groups = {{5, {3, 16, 0}}, {20, {8, 8, 8}}, {1, {1, 64, 2}}};
      for (TestGroup& group : scene.groups) group.xa = group.b_ready = xa;
      check(scene, false, fmt::format("{} xa {}", to_string(dtype), xa));
    }
  }
}

TEST_F(Handoff, TakesRanksThatDoNotFitSharedMemory) {
  TestScene scene;
  scene.outputs = {40, 24};
  scene.groups = {{18, {700, 1100}}, {2, {513, 8}}};
  for (TestGroup& group : scene.groups) group.xa = group.b_ready = true;
  check(scene, false, "xa");
}

// A missing module's columns of y hold NaN, and the device's table holds garbage until the load
// arrives.
TEST_F(Handoff, ReadsNothingForModulesThatAnAdapterDoesNotHave) {
  for (const bool xa : {false, true}) {
    TestScene scene;
    scene.outputs = {16, 24, 40};
    scene.groups = {{3, {4, 0, 8}}, {2, {0, 5, 0}}, {4, {0, 0, 0}}, {1, {0, 0, 12}}};
    for (TestGroup& group : scene.groups) group.xa = group.b_ready = xa;
    check(scene, false, xa ? "xa" : "cpu");
  }
}

TEST_F(Handoff, FindsBInTheChunksOfAPool) {
  for (const DType dtype : kDtypes) {
    TestScene scene;
    scene.dtype = scene.out_dtype = dtype;
    scene.outputs = {264, 40};
    scene.shift = 12;
    scene.groups = {{7, {24, 9}}, {66, {40, 0}}};
    for (TestGroup& group : scene.groups) group.xa = group.b_ready = true;
    check(scene, false, std::string(to_string(dtype)));
  }
}

// All rows of an adapter must be in place when its doorbell rings; the workers look at once.
TEST_F(Handoff, RingsADoorbellWhenTheRowsAreThere) {
  for (int round = 0; round < 20; ++round) {
    TestScene scene;
    scene.in = 8 * pick(1, 40) + round % 2;
    for (int g = 0; g < 6; ++g) {
      scene.groups.push_back({static_cast<std::int32_t>(pick(1, 60)), {1}, g % 3});
    }
    check(scene, false, fmt::format("round {}", round));
  }
}

TEST_F(Handoff, WaitsForEveryWorkerOfAGroup) {
  TestScene scene;
  scene.groups = {{4, {8}, 0, 0x8000000000000001}, {2, {8}, 0, 0x30}, {9, {8}, 1, ~0ULL}};
  check(scene, false, "all answer");
  scene.groups[1].answer = TestAnswer::by_all_but_one;
  Stage stage;
  stage.scene = scene;
  lay_out(stage);
  stage.accept.deadline_us = 0;
  run(stage, true);
  EXPECT_EQ(stage.d_timed_out->download(*stream_), (std::vector<std::uint32_t>{0, 1, 0}));
  judge(stage, "one does not");
}

TEST_F(Handoff, TakesOnlyTheJobsOwnSequenceForAnAnswer) {
  Stage stage;
  for (int g = 0; g < 10; ++g) {
    stage.scene.groups.push_back({2, {4}, g % 4, std::uint64_t{1} << g});
    if (g % 4 != 3) stage.scene.groups.back().answer = TestAnswer::with_garbage;
  }
  lay_out(stage);
  stage.accept.deadline_us = 0;
  run(stage, true);
  EXPECT_EQ(stage.d_timed_out->download(*stream_),
            (std::vector<std::uint32_t>{1, 1, 1, 0, 1, 1, 1, 0, 1, 1}));
  judge(stage, "garbage");
}

TEST_F(Handoff, GivesUpAtTheDeadlineAndOnlyThen) {
  Stage stage;
  stage.scene.groups = {{3, {4}, 0}, {3, {4}, 2}};
  stage.scene.groups[0].answer = TestAnswer::never;
  lay_out(stage);
  stage.accept.deadline_us = 40'000;
  const TestClock::time_point begin = TestClock::now();
  run(stage, true);
  const auto took = TestClock::now() - begin;
  EXPECT_GE(took, std::chrono::milliseconds(40));
  EXPECT_LT(took, std::chrono::seconds(20));
  EXPECT_EQ(stage.d_timed_out->download(*stream_), (std::vector<std::uint32_t>{1, 0}));
  judge(stage, "deadline");
}

// After a deadline has broken a mailbox, later offers to it are dropped without a wait until the
// word is zeroed. The other mailbox continues.
TEST_F(Handoff, OffersNothingToABrokenMailboxUntilItIsMended) {
  Stage stage;
  stage.scene.groups = {{3, {4}, 0}, {3, {4}, 1}};
  stage.scene.groups[0].answer = TestAnswer::never;
  lay_out(stage);
  stage.accept.deadline_us = 0;
  run(stage, true);
  judge(stage, "the job that is missed");
  stage.accept.deadline_us = kLongDeadlineUs;
  const TestClock::time_point begin = TestClock::now();
  for (int job = 0; job < 3; ++job) {
    run(stage, false);
    EXPECT_EQ(stage.d_tickets->download(*stream_),
              (std::vector<std::uint32_t>{static_cast<std::uint32_t>(Ticket::dropped),
                                          static_cast<std::uint32_t>(Ticket::cpu)}));
    judge(stage, "a job after it");
  }
  // A ticket given before the mailbox broke is not waited for either.
  const auto cpu = static_cast<std::uint32_t>(Ticket::cpu);
  next_job(stage);
  std::thread workers([&] { work(stage); });
  stream_->offer(stage.offer);
  stream_->copy_to_device(stage.d_tickets->on_device(), &cpu, sizeof cpu);
  stage.tickets[0] = cpu;
  stream_->accept(stage.accept);
  EXPECT_TRUE(stream_->synchronize().ok());
  workers.join();
  EXPECT_LT(TestClock::now() - begin, std::chrono::seconds(25));

  const std::uint32_t zero = 0;
  stream_->copy_to_device(stage.d_state->on_device(), &zero, sizeof zero);
  stream_->copy_to_device(stage.d_timed_out->on_device(), &zero, sizeof zero);
  stage.scene.groups[0].answer = TestAnswer::right;
  run(stage, false);
  EXPECT_EQ(stage.d_tickets->download(*stream_), (std::vector<std::uint32_t>{cpu, cpu}));
  EXPECT_EQ(stage.d_timed_out->download(*stream_), (std::vector<std::uint32_t>{0, 0}));
}

// Nobody computes such a group, and no mailbox breaks.
TEST_F(Handoff, TimedOutAGroupThatMayOnlyHaveItsBMissing) {
  Stage stage;
  stage.scene.groups = {{3, {4}}, {2, {4}}};
  stage.scene.groups[0].cpu = false;
  stage.scene.groups[0].xa = true;
  lay_out(stage);
  run(stage, false);
  EXPECT_EQ(stage.d_timed_out->download(*stream_), (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(stage.d_state->download(*stream_)[0].broken[0], 0U);
  judge(stage, "xa without B");
}

TEST_F(Handoff, NeverClearsAVoid) {
  Stage stage;
  stage.scene.groups = {{3, {4}}};
  lay_out(stage);
  const std::uint32_t one = 1;
  stream_->copy_to_device(stage.d_timed_out->on_device(), &one, sizeof one);
  stage.timed_out = {1};
  run(stage, false);
  judge(stage, "void from before");
}

TEST_F(Handoff, EqualsItsTwinOnRandomScenes) {
  for (int round = 0; round < 40; ++round) {
    TestScene scene;
    scene.dtype = kDtypes[round % 3];
    scene.out_dtype = pick(0, 1) == 0 ? scene.dtype : DType::f32;
    scene.in = pick(1, 3) == 1 ? pick(1, 90) : 8 * pick(1, 12);
    scene.outputs.clear();
    for (std::int64_t m = pick(1, 3); m > 0; --m) scene.outputs.push_back(pick(1, 60));
    if (pick(0, 1) == 0) scene.shift = static_cast<std::int32_t>(pick(12, 16));
    scene.warm_rows = static_cast<std::int32_t>(pick(0, 9));
    scene.other_rows = static_cast<std::int32_t>(pick(0, 9));
    const bool trouble = round % 2 == 1;
    const std::int64_t mailboxes = pick(1, 4);
    const std::int64_t most = round % 10 == 0 ? kMaxColdGroups : 8;
    std::int64_t rows = 0;
    do {
      TestGroup group = any_group(scene.outputs.size(), mailboxes);
      group.count = static_cast<std::int32_t>(pick(0, 3) == 0 ? pick(1, 130) : pick(1, 4));
      rows += group.count;
      if (trouble && pick(0, 2) == 0) group.answer = static_cast<TestAnswer>(pick(1, 3));
      scene.groups.push_back(group);
    } while (static_cast<std::int64_t>(scene.groups.size()) < pick(1, most) && rows < 400);
    if (pick(0, 3) == 0) scene.broken = {static_cast<std::int32_t>(pick(0, mailboxes - 1))};
    Stage stage;
    stage.scene = scene;
    lay_out(stage);
    if (trouble) stage.accept.deadline_us = static_cast<std::uint32_t>(pick(0, 2000));
    for (int job = 0; job < 2; ++job) {
      run(stage, trouble);
      judge(stage, fmt::format("round {} job {}", round, job));
      take_over_result(stage);
    }
    if (HasFailure()) return;
  }
}

// Data beyond the step's groups may be neither used nor written.
TEST_F(Handoff, TouchesNothingBeyondTheStepsGroups) {
  for (const bool xa : {false, true}) {
    for (const std::int32_t room : {8, kMaxColdGroups}) {
      for (const std::size_t num_groups : {3, 1}) {
        TestScene scene;
        scene.in = 51;
        scene.outputs = {33, 8};
        scene.groups = {{5, {3, 16}, 0, 0x30}, {66, {8, 0}, 1}, {1, {1, 20}}};
        scene.groups.resize(num_groups);
        for (TestGroup& group : scene.groups) group.xa = group.b_ready = xa;
        scene.room_for_groups = room;
        scene.max_count = 300;
        scene.max_rank = 40;
        check(scene, false, fmt::format("{} of {} groups, xa {}", num_groups, room, xa));
      }
    }
  }
}

TEST_F(Handoff, ServesAllJobsOfAsManyGroupsByOneRecording) {
  for (const DType dtype : kDtypes) {
    const std::int64_t num_groups = pick(1, 6);
    const auto any_scene = [&] {
      TestScene scene;
      scene.dtype = dtype;
      scene.out_dtype = dtype == DType::bf16 ? DType::f32 : dtype;
      scene.outputs = {24, 33};
      scene.room_for_groups = 6;
      scene.max_count = 40;
      scene.max_rank = 24;
      scene.num_mails = 3;
      scene.warm_rows = static_cast<std::int32_t>(pick(0, 9));
      scene.other_rows = 120 - scene.warm_rows;
      for (std::int64_t g = num_groups; g > 0; --g) {
        scene.groups.push_back(any_group(scene.outputs.size(), scene.num_mails));
        scene.groups.back().count = static_cast<std::int32_t>(pick(1, 18));
        scene.other_rows -= scene.groups.back().count;
      }
      if (pick(0, 3) == 0) scene.broken = {static_cast<std::int32_t>(pick(0, 2))};
      return scene;
    };
    Stage stage;
    stage.scene = any_scene();
    lay_out(stage);
    run(stage, false);  // loads kernels, which happens at their first use
    judge(stage, "before the recording");
    ASSERT_TRUE(stream_->begin_recording().ok());
    enqueue(stage);
    const auto recording = stream_->end_recording();
    ASSERT_TRUE(recording.ok()) << recording.status().message();
    for (int round = 0; round < 20; ++round) {
      change(stage, any_scene());
      for (int job = 0; job < 2; ++job) {
        if (round % 5 == 4) {  // in between, jobs that are not recorded
          run(stage, false);
        } else {
          run(stage, **recording);
        }
        judge(stage, fmt::format("{} round {} job {}", to_string(dtype), round, job));
        take_over_result(stage);
      }
      if (HasFailure()) return;
    }
  }
}

// A load on another stream: an offer that finds its words set must also find its weights.
TEST_F(Handoff, FindsTheWeightsThatTheReadyWordsTellOf) {
  const auto load = std::move(device_->create_stream("load")).value();
  Stage stage;
  stage.scene.dtype = stage.scene.out_dtype = DType::f32;
  stage.scene.in = 64;
  stage.scene.outputs = {48};
  stage.scene.warm_rows = 0;
  stage.scene.groups = {{4, {16}}};
  // Until the words are set the ticket is `dropped`, and the rows stay unchanged.
  stage.scene.groups[0].cpu = false;
  stage.scene.groups[0].xa = true;
  lay_out(stage);
  const auto table = array(stage.weights.device_table);
  stage.lora.table = stage.accept.table = table.on_device();
  const TestTensor& a = stage.weights.tensors[0];
  const TestTensor& b = stage.weights.tensors[1];
  std::vector<float> zeros(static_cast<std::size_t>(stage.out->host().num_elements()), 0.0F);
  std::memcpy(stage.out->host().data, zeros.data(), zeros.size() * 4);
  LoraArgs twin = stage.lora;
  twin.x = stage.x->host();
  twin.table = stage.weights.host_table.data();
  twin.rows = stage.rows.data();
  twin.segments = stage.segments.data();
  place(stage.scene, stage.out->host(), twin.out);
  reference::lora(twin);

  int found = 0;
  const auto bytes = static_cast<std::size_t>(a.host().num_elements()) * 4;
  const auto b_bytes = static_cast<std::size_t>(b.host().num_elements()) * 4;
  const std::vector<float> nothing(std::max(bytes, b_bytes) / 4, 1e6F);
  std::uint32_t* words = stage.d_ready->on_device() + kReadyOffset;
  for (int round = 0; round < 100; ++round) {
    load->set_flag(words, 1, kNumLoadParts);
    load->copy_to_device(a.on_device().data, nothing.data(), bytes);
    load->copy_to_device(b.on_device().data, nothing.data(), b_bytes);
    EXPECT_TRUE(load->synchronize().ok());
    std::deque<TestTensor> outs;
    std::deque<TestArray<std::uint32_t>> tickets;
    std::vector<OfferDescriptor> descriptors;
    for (int i = 0; i < 6; ++i) {
      outs.emplace_back(*device_, DType::f32, std::initializer_list<std::int64_t>{6, 48})
          .upload(*stream_);
      tickets.push_back(array(std::vector<std::uint32_t>{0}));
      descriptors.push_back(stage.descriptor);
      descriptors.back().sequence = ++last_sequence_;
    }
    const TestArray<OfferDescriptor> d_descriptors = array(descriptors);
    for (std::size_t i = 0; i < outs.size(); ++i) {
      if (i == static_cast<std::size_t>(round) % 5) {
        load->copy_to_device(a.on_device().data, a.host().data, bytes);
        load->copy_to_device(b.on_device().data, b.host().data, b_bytes);
        if (round % 2 == 0) {
          load->set_flag(words, kGeneration, kNumLoadParts);
        } else {
          load->set_flag(words + 1, kGeneration, 1);
          load->set_flag(words, kGeneration, 1);
        }
      }
      stage.offer.descriptor = d_descriptors.on_device() + i;
      stage.offer.tickets = tickets[i].on_device();
      place(stage.scene, outs[i].on_device(), stage.lora.out);
      stream_->offer(stage.offer);
      stream_->lora(stage.lora);
    }
    EXPECT_TRUE(load->synchronize().ok());
    EXPECT_TRUE(stream_->synchronize().ok());
    for (std::size_t i = 0; i < outs.size(); ++i) {
      const bool gpu = tickets[i].download(*stream_)[0] == static_cast<std::uint32_t>(Ticket::gpu);
      found += gpu ? 1 : 0;
      std::memcpy(outs[i].host().data, gpu ? stage.out->host().data : zeros.data(),
                  zeros.size() * 4);
      expect_same(outs[i],
                  fmt::format("round {} offer {} on the {}", round, i, gpu ? "gpu" : "way"));
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(found, 0);
}

TEST_F(Handoff, HoldsAStreamUntilTheCpuHasSetAFlag) {
  Buffer pinned = std::move(device_->allocate_pinned(4096, "flags")).value();
  auto* flag = reinterpret_cast<std::uint32_t*>(pinned.data());
  auto* source = reinterpret_cast<std::uint32_t*>(pinned.data() + 64);
  auto* target = reinterpret_cast<std::uint32_t*>(pinned.data() + 128);
  const Buffer device = std::move(device_->allocate(64, "word")).value();
  *flag = 0;
  for (std::uint32_t round = 1; round <= 50; ++round) {
    *source = 0;
    stream_->wait_flag(flag, round);
    stream_->copy_to_device(device.data(), source, 4);
    stream_->copy_to_host(target, device.data(), 4);
    const auto passed = device_->create_event();
    stream_->record(*passed);
    EXPECT_FALSE(passed->passed());
    *source = round;
    // release: pairs with the acquire of the stream's wait
    std::atomic_ref<std::uint32_t>(*flag).store(round, std::memory_order_release);
    ASSERT_TRUE(stream_->synchronize().ok());
    ASSERT_EQ(*target, round);
  }
}

}  // namespace
}  // namespace tandem
