#include "tests/gpu/ops/handoff_stage.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

namespace tandem {

void HandoffTest::lay_out(Stage& s) {
  describe(s);
  const TestScene& scene = s.scene;
  const auto t = static_cast<std::int64_t>(s.rows.size());
  const std::int64_t width =
      std::accumulate(scene.outputs.begin(), scene.outputs.end(), std::int64_t{0});
  const auto modules = static_cast<std::int32_t>(scene.outputs.size());
  const std::int32_t widest = std::max(s.widest, scene.max_rank * modules);
  for (const std::int32_t rows : s.mailed_rows) {
    for (auto* mails : {&s.mails, &s.twin_mails}) {
      mails->emplace_back(*device_, scene.dtype, scene.is_bounded() ? t + 3 : rows + 1,
                          scene.in + 5, width + 3, widest + 2);
    }
  }
  s.x.emplace(tensor(scene.dtype, {t, scene.in}, 1, 3));
  s.out.emplace(tensor(scene.out_dtype, {t, width}, 1, 5));
  s.d_rows.emplace(array(s.rows));
  s.d_segments.emplace(array(s.segments));
  s.d_live.emplace(array(s.live));
  s.d_groups.emplace(array(s.groups));
  s.d_descriptor.emplace(array(std::vector<OfferDescriptor>{s.descriptor}));
  s.pinned_descriptor =
      std::move(device_->allocate_pinned(sizeof(OfferDescriptor), "descriptor")).value();
  s.d_table.emplace(array(s.telling_table));
  s.d_ready.emplace(array(s.ready));
  s.d_tickets.emplace(array(s.tickets));
  s.d_timed_out.emplace(array(s.timed_out));
  s.d_state.emplace(array(std::vector<HandoffState>{s.state}));
  fill_args(s);
}

void HandoffTest::change(Stage& s, TestScene scene) {
  s.scene = std::move(scene);
  describe(s);
  ASSERT_EQ(s.mailed_rows.size(), s.mails.size());
  for (const auto* mails : {&s.mails, &s.twin_mails}) {
    for (const TestMail& mail : *mails) mail.forget();
  }
  s.x->fill(random_).upload(*stream_);
  s.out->fill(random_).upload(*stream_);
  s.d_rows->set(*stream_, s.rows);
  s.d_segments->set(*stream_, s.segments);
  s.d_live->set(*stream_, s.live);
  s.d_groups->set(*stream_, s.groups);
  s.d_table->set(*stream_, s.telling_table);
  s.d_ready->set(*stream_, s.ready);
  s.d_tickets->set(*stream_, s.tickets);
  s.d_timed_out->set(*stream_, s.timed_out);
  s.d_state->set(*stream_, {s.state});
}

void HandoffTest::describe(Stage& s) {
  const TestScene& scene = s.scene;
  std::vector<std::vector<std::int32_t>> ranks;
  s.widest = 1;
  for (const TestGroup& group : scene.groups) {
    ranks.push_back(group.ranks);
    s.widest = std::max(s.widest, std::accumulate(group.ranks.begin(), group.ranks.end(), 0));
  }
  ranks.emplace_back(scene.outputs.size(), 4);  // the warm adapter
  s.weights = {};
  make_weights(scene.dtype, scene.in, scene.outputs, ranks, s.weights, scene.biases);
  const std::vector<LoraMatrix> addresses = s.weights.host_table;
  if (scene.shift > 0) scatter_weights(scene.outputs.size(), scene.shift, s.weights);
  s.weights.host_table = addresses;
  describe_segments(s);
  describe_groups(s);
  const std::size_t most = s.groups.size();
  s.live.assign(s.segments.size(), {-5, -5, -5});
  s.tickets.assign(most, static_cast<std::uint32_t>(Ticket::cpu_xa));  // an earlier step's
  std::fill_n(s.tickets.begin(), scene.groups.size(), 99);
  s.timed_out.assign(most, 0);
  s.state = {};
  for (const std::int32_t broken : scene.broken) s.state.broken[broken] = 1;
  s.seen.assign(scene.groups.size(), {});
}

void HandoffTest::describe_segments(Stage& s) {
  const TestScene& scene = s.scene;
  // The warm segment comes first, then the groups' segments, in another order than their slots.
  s.segments = {{static_cast<std::int32_t>(scene.groups.size()), 0, scene.warm_rows}};
  std::int32_t first = scene.warm_rows;
  for (std::size_t g = scene.groups.size(); g-- > 0;) {
    s.segments.push_back({static_cast<std::int32_t>(g), first, scene.groups[g].count});
    first += scene.groups[g].count;
  }
  s.rows.resize(static_cast<std::size_t>(first + scene.other_rows));
  std::iota(s.rows.begin(), s.rows.end(), 0);
  std::shuffle(s.rows.begin(), s.rows.end(), random_);
}

void HandoffTest::describe_groups(Stage& s) {
  const TestScene& scene = s.scene;
  const std::size_t modules = scene.outputs.size();
  s.mailed_rows.assign(static_cast<std::size_t>(scene.num_mails), 2);
  s.groups.clear();
  s.descriptor = {};
  s.ready.assign((scene.groups.size() + 1) * kReadyStride, kGeneration);  // other layers'
  s.telling_table = s.weights.device_table;
  for (std::size_t g = 0; g < scene.groups.size(); ++g) {
    const TestGroup& group = scene.groups[g];
    const auto mailbox = static_cast<std::size_t>(group.mailbox);
    if (s.mailed_rows.size() <= mailbox) s.mailed_rows.resize(mailbox + 1, 2);
    std::int32_t& row = s.mailed_rows[mailbox];
    s.groups.push_back({static_cast<std::int32_t>(scene.groups.size() - g), group.mailbox, row,
                        kGeneration, group.workers});
    row += group.count;
    const std::uint64_t bit = std::uint64_t{1} << g;
    if (group.cpu) s.descriptor.cpu_groups |= bit;
    if (group.xa) s.descriptor.xa_groups |= bit;
    for (std::size_t m = 0; m < modules; ++m) {
      if (group.ranks[m] > 0) s.descriptor.adapted[m] |= bit;
    }
    // Missing parts hold an earlier generation's value, or a later one's.
    std::uint32_t* ready = s.ready.data() + g * kReadyStride + kReadyOffset;
    ready[0] = group.a_ready ? kGeneration : kGeneration - 1;
    ready[1] = group.b_ready ? kGeneration : static_cast<std::uint32_t>(pick(0, 6));
    if (!group.cpu && !group.xa) continue;
    for (std::size_t m = 0; m < modules; ++m) {
      LoraMatrix& matrix = s.telling_table[g * modules + m];
      if (!group.b_ready) matrix = {~0ULL, ~0ULL, 1 << 20, -1};
      if (!group.a_ready) matrix.a = ~0ULL;
    }
  }
  if (!scene.is_bounded()) return;
  const auto most = static_cast<std::size_t>(scene.room_for_groups);
  ASSERT_GE(most, scene.groups.size());
  s.groups.resize(most, {1 << 20, 77, 1 << 20, kGeneration, ~0ULL});
  s.segments.resize(most + 1, {0, 0, 0});
  s.ready.resize((most + 1) * kReadyStride, kGeneration);
  s.telling_table.resize((most + 1) * modules, {~0ULL, ~0ULL, 1 << 20, -1});
  const std::uint64_t beyond = scene.groups.size() < 64 ? ~0ULL << scene.groups.size() : 0;
  s.descriptor.cpu_groups |= beyond;
  s.descriptor.xa_groups |= beyond;
  for (std::uint64_t& mask : s.descriptor.adapted) mask |= beyond;
}

void HandoffTest::fill_args(Stage& s) {
  const TestScene& scene = s.scene;
  const auto modules = static_cast<std::int32_t>(scene.outputs.size());
  OfferArgs& offer = s.offer;
  offer.descriptor = s.d_descriptor->on_device();
  offer.x = s.x->on_device();
  offer.rows = s.d_rows->on_device();
  offer.segments = s.d_segments->on_device();
  offer.num_segments = static_cast<std::int32_t>(s.segments.size());
  offer.live = s.d_live->on_device();
  offer.groups = s.d_groups->on_device();
  offer.num_groups = static_cast<std::int32_t>(scene.groups.size());
  offer.max_count = std::max(1, scene.max_count);
  for (const TestGroup& group : scene.groups) {
    offer.max_count = std::max(offer.max_count, group.count);
  }
  offer.ready = s.d_ready->on_device() + kReadyOffset;
  offer.slot_stride = kReadyStride;
  offer.tickets = s.d_tickets->on_device();
  offer.state = s.d_state->on_device();
  for (std::size_t m = 0; m < s.mails.size(); ++m) offer.mailboxes[m] = s.mails[m].view();
  AcceptArgs& accept = s.accept;
  accept.num_modules = modules;
  place(scene, s.out->on_device(), accept.out);
  accept.dtype = scene.dtype;
  static_cast<HandoffJob&>(accept) = offer;
  accept.deadline_us = kLongDeadlineUs;
  accept.timed_out = s.d_timed_out->on_device();
  accept.table = s.d_table->on_device();
  accept.slot_stride = modules;
  accept.pages = s.weights.device_pages;
  accept.any_xa = scene.is_bounded() || s.descriptor.xa_groups != 0;
  LoraArgs& lora = s.lora;
  lora.x = offer.x;
  lora.table = accept.table;
  lora.slot_stride = modules;
  lora.pages = accept.pages;
  lora.num_modules = accept.num_modules;
  place(scene, s.out->on_device(), lora.out);
  lora.rows = offer.rows;
  lora.num_rows = static_cast<std::int32_t>(s.rows.size());
  if (!scene.is_bounded()) lora.num_rows -= scene.other_rows;
  lora.segments = offer.live;
  lora.num_segments = offer.num_segments;
  lora.max_rank = std::max(scene.max_rank, s.weights.max_rank);
  lora.max_count = std::max(offer.max_count, scene.warm_rows);
  lora.live = true;
}

void HandoffTest::place(const TestScene& scene, const TensorView& whole, TensorView* out) {
  std::int64_t column = 0;
  for (std::size_t m = 0; m < scene.outputs.size(); ++m) {
    out[m] = whole.slice_cols(column, scene.outputs[m]);
    column += scene.outputs[m];
  }
}

void HandoffTest::work(Stage& s) {
  const TestClock::time_point end = TestClock::now() + std::chrono::seconds(60);
  std::vector<bool> over(s.scene.groups.size());
  for (std::size_t left = over.size(); left > 0;) {
    for (std::size_t g = 0; g < over.size(); ++g) {
      if (over[g]) continue;
      const std::uint64_t doorbell =
          s.mails[static_cast<std::size_t>(s.groups[g].mailbox)].doorbell(static_cast<int>(g));
      if (sequence_of(doorbell) != s.sequence) continue;
      over[g] = true;
      --left;
      const Ticket ticket = ticket_of(doorbell);
      if (ticket == Ticket::cpu || ticket == Ticket::cpu_xa) compute(s, g, ticket);
    }
    ASSERT_LT(TestClock::now(), end) << left << " doorbells have not rung";
    std::this_thread::yield();
  }
}

void HandoffTest::compute(Stage& s, std::size_t g, Ticket ticket) {
  const TestScene& scene = s.scene;
  const TestGroup& group = scene.groups[g];
  const std::int32_t first_row = s.groups[g].first_row;
  const TestMail& mail = s.mails[static_cast<std::size_t>(group.mailbox)];
  const auto size = static_cast<std::int64_t>(size_of(scene.dtype));
  const TensorView x(mail.view().x + first_row * mail.view().max_in * size, scene.dtype,
                     {group.count, scene.in});
  const auto* bytes = static_cast<const std::byte*>(x.data);
  s.seen[g].assign(bytes, bytes + x.num_elements() * size);
  if (ticket == Ticket::cpu) {
    write_y(s, g, x, mail.y() + first_row * mail.view().max_out * size);
  } else {
    write_v(s, g, x, mail.v() + first_row * mail.view().v_row);
  }
  bool skip = group.answer == TestAnswer::by_all_but_one;
  for (int worker_slot = 0; worker_slot < kWorkerSlots; ++worker_slot) {
    if ((group.workers >> worker_slot & 1) == 0) continue;
    if (group.answer == TestAnswer::never || std::exchange(skip, false)) continue;
    const std::uint64_t garbage[] = {s.sequence + 1, s.sequence - 1, ~0ULL, s.sequence << 3,
                                     s.sequence | 1ULL << 63};
    mail.answer(worker_slot, static_cast<std::int32_t>(g),
                group.answer == TestAnswer::with_garbage
                    ? garbage[(g + static_cast<std::size_t>(worker_slot)) % std::size(garbage)]
                    : s.sequence);
  }
}

void HandoffTest::write_y(const Stage& s, std::size_t g, const TensorView& x, std::byte* y) {
  const TestScene& scene = s.scene;
  const std::int64_t width =
      std::accumulate(scene.outputs.begin(), scene.outputs.end(), std::int64_t{0});
  const TensorView all(y, scene.dtype, {x.rows(), width});
  LoraArgs args;
  args.x = x;
  args.num_modules = static_cast<std::int32_t>(scene.outputs.size());
  args.table = s.weights.host_table.data() + g * scene.outputs.size();
  place(scene, all, args.out);
  for (std::size_t m = 0; m < scene.outputs.size(); ++m) {
    for (std::int64_t i = 0; args.table[m].rank > 0 && i < x.rows() * args.out[m].cols(); ++i) {
      reference::put(args.out[m], 0, i / args.out[m].cols(), i % args.out[m].cols());
    }
  }
  std::vector<std::int32_t> rows(static_cast<std::size_t>(x.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  const LoraSegment segment{0, 0, static_cast<std::int32_t>(x.rows())};
  args.rows = rows.data();
  args.segments = &segment;
  args.num_segments = 1;
  reference::lora(args);
}

void HandoffTest::write_v(const Stage& s, std::size_t g, const TensorView& x, float* v) {
  const std::size_t modules = s.scene.outputs.size();
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::size_t m = 0; m < modules; ++m) {
      const LoraMatrix& matrix = s.weights.host_table[g * modules + m];
      const TensorView a(reinterpret_cast<void*>(matrix.a), x.dtype, {matrix.rank, x.cols()});
      for (std::int32_t j = 0; j < matrix.rank; ++j) {
        float sum = 0;
        for (std::int64_t i = 0; i < x.cols(); ++i) {
          sum += reference::at(x, r, i) * reference::at(a, j, i);
        }
        *v++ = sum;
      }
    }
  }
}

void HandoffTest::next_job(Stage& s) {
  last_sequence_ += static_cast<std::uint64_t>(pick(1, 5)) << pick(0, 20);
  s.sequence = last_sequence_;
  s.descriptor.sequence = s.sequence;
  std::memcpy(s.pinned_descriptor.data(), &s.descriptor, sizeof s.descriptor);
  stream_->upload(s.d_descriptor->on_device(), s.pinned_descriptor.data(), sizeof s.descriptor);
}

void HandoffTest::enqueue(const Stage& s) {
  stream_->offer(s.offer);
  stream_->lora(s.lora);
  stream_->accept(s.accept);
}

void HandoffTest::run(Stage& s, Graph& recording) {
  next_job(s);
  std::thread workers([&s] { work(s); });
  stream_->launch(recording);
  const Status status = stream_->synchronize();
  EXPECT_TRUE(status.ok()) << status.message();
  workers.join();
}

void HandoffTest::run(Stage& s, bool apart) {
  next_job(s);
  std::thread workers([&s] { work(s); });
  stream_->offer(s.offer);
  stream_->lora(s.lora);
  if (apart) {
    EXPECT_TRUE(stream_->synchronize().ok());
    workers.join();
  }
  stream_->accept(s.accept);
  const Status status = stream_->synchronize();
  EXPECT_TRUE(status.ok()) << status.message();
  if (!apart) workers.join();
}

void HandoffTest::judge(Stage& s, const std::string& what) {
  OfferArgs offer = s.offer;
  offer.descriptor = &s.descriptor;
  offer.x = s.x->host();
  offer.rows = s.rows.data();
  offer.segments = s.segments.data();
  offer.live = s.live.data();
  offer.groups = s.groups.data();
  offer.ready = s.ready.data() + kReadyOffset;
  offer.tickets = s.tickets.data();
  offer.state = &s.state;
  for (std::size_t m = 0; m < s.mails.size(); ++m) offer.mailboxes[m] = s.twin_mails[m].view();
  reference::offer(offer);

  LoraArgs lora = s.lora;
  lora.x = offer.x;
  lora.table = s.weights.host_table.data();
  lora.pages = {};
  lora.rows = offer.rows;
  lora.segments = offer.live;
  place(s.scene, s.out->host(), lora.out);
  reference::lora(lora);

  AcceptArgs accept = s.accept;
  accept.descriptor = offer.descriptor;
  accept.rows = offer.rows;
  accept.segments = offer.segments;
  accept.groups = offer.groups;
  accept.tickets = offer.tickets;
  accept.state = &s.state;
  accept.timed_out = s.timed_out.data();
  accept.table = lora.table;
  accept.pages = {};
  place(s.scene, s.out->host(), accept.out);
  reference::accept(accept);

  const auto tickets = s.d_tickets->download(*stream_);
  const auto timed_out = s.d_timed_out->download(*stream_);
  const auto live = s.d_live->download(*stream_);
  const auto state = s.d_state->download(*stream_);
  EXPECT_EQ(tickets, s.tickets) << what;
  EXPECT_EQ(timed_out, s.timed_out) << what;
  for (int m = 0; m < kMaxMailboxes; ++m) {
    EXPECT_EQ(state[0].broken[m], s.state.broken[m]) << what << " mailbox " << m;
  }
  for (std::size_t i = 0; i < live.size(); ++i) {
    EXPECT_EQ(live[i].count, s.live[i].count) << what << " segment " << i;
    if (live[i].count == 0) continue;
    EXPECT_EQ(live[i].slot, s.live[i].slot) << what << " segment " << i;
    EXPECT_EQ(live[i].first, s.live[i].first) << what << " segment " << i;
  }
  for (std::size_t m = 0; m < s.mails.size(); ++m) {
    for (std::int32_t g = 0; g < kMaxColdGroups; ++g) {
      EXPECT_EQ(s.mails[m].doorbell(g), s.twin_mails[m].doorbell(g)) << what << " group " << g;
    }
  }
  for (std::size_t g = 0; g < s.scene.groups.size(); ++g) judge_mail(s, g, what);
  expect_same(*s.out, what);
}

void HandoffTest::judge_mail(Stage& s, std::size_t g, const std::string& what) {
  const auto m = static_cast<std::size_t>(s.groups[g].mailbox);
  const auto ticket = static_cast<Ticket>(s.tickets[g]);
  if (ticket != Ticket::cpu && ticket != Ticket::cpu_xa) return;
  const MailboxView& twin = s.twin_mails[m].view();
  const auto size = static_cast<std::int64_t>(size_of(s.scene.dtype));
  const std::byte* want = twin.x + s.groups[g].first_row * twin.max_in * size;
  ASSERT_EQ(s.seen[g].size(),
            static_cast<std::size_t>(s.scene.groups[g].count * s.scene.in * size));
  EXPECT_EQ(std::memcmp(s.seen[g].data(), want, s.seen[g].size()), 0)
      << what << " group " << g << ": other rows of x than the twin's when its doorbell rang";
}

void HandoffTest::check(TestScene scene, bool apart, const std::string& what) {
  Stage stage;
  stage.scene = std::move(scene);
  lay_out(stage);
  run(stage, apart);
  judge(stage, what);
}

}  // namespace tandem
