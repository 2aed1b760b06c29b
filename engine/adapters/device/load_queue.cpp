#include "engine/adapters/device/load_queue.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/trace/tracer.h"

namespace tandem {
namespace {

// A stream's queue is finite (about 1,000 operations on CUDA). Enqueueing on a full one blocks the
// engine, and each operation takes microseconds that delay the next step. So pieces are enqueued
// some milliseconds before the link is free for them, which is more than enqueueing a step takes,
// unless a step waits for them. A few are always enqueued, in case the link is faster than
// expected.
constexpr std::size_t kMostAhead = 300;  // an emulated link makes three of a copy
constexpr std::size_t kFewAhead = 32;
constexpr std::size_t kOperationsOfPiece = 5;  // approximately
constexpr std::chrono::microseconds kRoomPoll{20};
constexpr std::chrono::milliseconds kAhead{4};
// The number of waiting pieces up to which an order by the planner still has an effect.
constexpr std::size_t kMostQueued = 16384;

}  // namespace

class LoadQueue::Guard {
 public:
  explicit Guard(LoadQueue& queue) : queue_(queue), exceptions_(std::uncaught_exceptions()) {}
  ~Guard() {
    if (std::uncaught_exceptions() > exceptions_) queue_.torn_ = true;
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  LoadQueue& queue_;
  const int exceptions_;
};

Result<std::unique_ptr<LoadQueue>> LoadQueue::create(const TierDevice& device, Shard shard,
                                                     const ModelSpec& spec,
                                                     const LoadSignals& signals, AdapterSlots slots,
                                                     const DeviceTable& table) {
  TANDEM_CHECK(!signals.has_words() || signals.clock != nullptr);
  TANDEM_ASSIGN(auto stream,
                LoadStream::create(device, shard, spec, signals, std::move(slots), table));
  return std::unique_ptr<LoadQueue>(new LoadQueue(std::move(stream), shard, signals, table));
}

void LoadQueue::check_whole() const {
  if (torn_) throw std::bad_alloc();
}

void LoadQueue::wait(const ServedAdapter& adapter, std::int64_t layer, PieceKind kind,
                     Stream& stream) {
  check_whole();
  const AdapterLoad* const load = in_flight_.find(adapter);
  if (load == nullptr || load->sent.empty()) return;
  const auto l = static_cast<std::size_t>(layer);
  if (kind == PieceKind::layer) stream_->let_go();
  hurry(*load, l, kind == PieceKind::b ? kPartB : kBothParts);
  Event* event = kind == PieceKind::b ? load->b_parts[l].get() : nullptr;
  if (event == nullptr) {  // for B that travelled with A
    stream_->let_go();
    event = load->layers[l].get();
  }
  stream.wait(*event);
}

bool LoadQueue::has_room() const {
  return operations_ahead_ + queue_.size() * kOperationsOfPiece <= kMostAhead;
}

void LoadQueue::hurry(const AdapterLoad& load, std::size_t layer, unsigned parts) {
  while ((load.sent[layer] & parts) != parts) {
    while (operations_ahead_ > kMostAhead && !ahead_.empty()) {
      stream_->let_go();  // a held piece never passes
      look();
      std::this_thread::sleep_for(kRoomPoll);
    }
    send_next();
  }
}

// From the reservation to the queue.

bool LoadQueue::is_full() const {
  return queue_.size() > kMostQueued;
}

void LoadQueue::reserve(SlotId slot, AdapterBytes source, std::uint32_t generation) {
  in_flight_.add(slot, std::move(source), generation);
  if (signals_.cold_starts != nullptr) {
    signals_.cold_starts->load_ordered(in_flight_.adapter(slot));
  }
}

// Events are created when they are recorded: until then nothing has passed.
void LoadQueue::enqueue(std::span<const SlotId> slots, std::span<const LoadPiece> order) {
  if (slots.empty()) return;
  check_whole();
  const Guard guard(*this);
  const TimePoint now = signals_.has_words() ? signals_.clock->now() : TimePoint{};
  link_.resume(now, queue_.empty() && ahead_.empty());
  for (const SlotId slot : slots) {
    AdapterLoad& each = in_flight_.at(slot);
    const std::size_t layers = in_flight_.adapter(slot).part().layers.size();
    each.layers.resize(layers);
    each.b_parts.resize(layers);
    each.arrivals.resize(layers);
    each.queued.assign(layers, 0);
    each.sent.assign(layers, 0);
    if (!signals_.has_words()) continue;
    stream_->write_later(slot);
    each.unread = in_flight_.unread(in_flight_.adapter(slot));
  }
  for (const LoadPiece& piece : order) {
    const auto index = static_cast<std::size_t>(piece.adapter);
    TANDEM_CHECK(index < slots.size(), "adapter {} of {}", piece.adapter, slots.size());
    queue_piece(slots[index], piece.layer, piece.kind, now);
  }
  for (const SlotId slot : slots) {
    for (std::size_t layer = 0; layer < in_flight_.at(slot).sent.size(); ++layer) {
      queue_piece(slot, static_cast<std::int32_t>(layer), PieceKind::layer, now);
    }
  }
  // Enough pieces for the link to begin with. The rest is enqueued with the step, or after it.
  look();
  while (!queue_.empty() && operations_ahead_ < kFewAhead) send_next();
}

// Leaves out parts that are in the queue already.
void LoadQueue::queue_piece(SlotId slot, std::int32_t layer, PieceKind kind, TimePoint now) {
  AdapterLoad& of = in_flight_.at(slot);
  const auto l = static_cast<std::size_t>(layer);
  TANDEM_CHECK(layer >= 0 && l < of.queued.size(), "layer {} of {}", layer, of.queued.size());
  const unsigned wanted = kind == PieceKind::a   ? kPartA
                          : kind == PieceKind::b ? kPartB
                                                 : kBothParts;
  const unsigned parts = wanted & ~unsigned{of.queued[l]};
  if (parts == 0) return;
  of.queued[l] = static_cast<std::uint8_t>(of.queued[l] | parts);
  const double seconds = stream_->seconds_of(slot, l, parts);
  const TimePoint earliest = of.unread.empty() ? TimePoint::min() : now + duration_of(of.unread[l]);
  const TimePoint begins = link_.add(seconds, earliest);
  if ((parts & kPartA) != 0) of.arrivals[l].a = link_.free_at();
  if ((parts & kPartB) != 0) of.arrivals[l].b = link_.free_at();
  ++of.pieces_left;
  queue_.push_back({slot, l, parts, begins, seconds});
}

// From the queue to the stream.

void LoadQueue::feed() {
  check_whole();
  look();
  while (!queue_.empty() && is_due(queue_.front())) send_next();
}

// Removes the operations that have passed. Also ends overdue readings, as steps in flight may wait
// for a layer that never comes, and the engine for them.
void LoadQueue::look() {
  while (!ahead_.empty() && ahead_.front().event->passed()) {
    operations_ahead_ -= ahead_.front().operations;
    note_arrival(ahead_.front());
    ahead_.pop_front();
  }
  in_flight_.end_overdue_readings();
}

// The slot may belong to another load by now.
void LoadQueue::note_arrival(const Ahead& passed) {
  if (signals_.cold_starts == nullptr) return;
  const AdapterLoad* const of = in_flight_.find(passed.slot);
  if (of == nullptr || of->generation != passed.generation) return;
  if (of->sent[passed.layer] != kBothParts) return;
  signals_.cold_starts->layer_there(in_flight_.adapter(passed.slot), passed.layer);
}

bool LoadQueue::is_due(const QueuedPiece& piece) const {
  if (operations_ahead_ < kFewAhead) return true;
  if (operations_ahead_ >= kMostAhead) return false;
  return !signals_.has_words() || piece.begins <= signals_.clock->now() + kAhead;
}

void LoadQueue::send_next() {
  TANDEM_CHECK(!queue_.empty(), "nothing is left to be sent");
  const Guard guard(*this);
  const QueuedPiece piece = queue_.front();
  queue_.pop_front();
  AdapterLoad& load = in_flight_.at(piece.slot);
  const LoadStream::Sent sent = stream_->send(load, piece, ahead_.empty(), queue_.empty());
  // An A without its B has no event: its operations count with the next piece.
  operations_ahead_ += sent.operations;
  operations_untold_ += sent.operations;
  if (sent.event == nullptr) return;
  ahead_.push_back(
      {sent.event, std::exchange(operations_untold_, 0), piece.slot, piece.layer, load.generation});
}

// The ends of loads.

Status LoadQueue::poll(std::vector<SlotId>& there) {
  check_whole();
  if (!in_flight_.slots().empty() && stream_->failed()) {
    Status status = stream_->synchronize();
    drop_all();
    return status;
  }
  feed();
  for (const SlotId slot : in_flight_.slots()) {
    const std::unique_ptr<Event>& whole = in_flight_.at(slot).whole;
    if (whole != nullptr && whole->passed()) there.push_back(slot);
  }
  return {};
}

void LoadQueue::end(SlotId slot) {
  if (trace::on() && shard_.rank == 0) {  // loads on other devices are alike
    trace_load(in_flight_.at(slot), in_flight_.adapter(slot), slot);
  }
  end_load(slot, true);
}

void LoadQueue::drop_all() {
  while (!in_flight_.slots().empty()) end_load(in_flight_.slots().front(), false);
  queue_.clear();
  ahead_.clear();
  stream_->forget_times();
  operations_ahead_ = 0;
  operations_untold_ = 0;
  torn_ = false;
}

// Apart from its own work, the stream only waits for layers that are still being read.
Status LoadQueue::abandon() noexcept {
  in_flight_.await_readings();
  Status status;
  try {
    status = stream_->synchronize();
  } catch (const std::bad_alloc&) {  // from making the message; this shorter one needs no memory
    status = Status(StatusCode::fatal, "out of memory");
  }
  drop_all();
  return status;
}

void LoadQueue::end_load(SlotId slot, bool well) {
  if (signals_.cold_starts != nullptr) {
    signals_.cold_starts->load_ended(in_flight_.adapter(slot), well);
  }
  stream_->reuse_events(in_flight_.at(slot));
  in_flight_.remove(slot);
}

Status LoadQueue::finish() {
  while (!queue_.empty()) send_next();
  return stream_->synchronize();
}

}  // namespace tandem
