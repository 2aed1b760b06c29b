#include "engine/adapters/device/load_queue.h"

#include <algorithm>
#include <atomic>
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

LoadQueue::LoadQueue(const TierDevice& device, std::size_t rank, const ModelSpec& spec,
                     const LoadSignals& signals, DeviceTable& table)
    : device_(device.device),
      memory_(device.memory),
      rank_(rank),
      spec_(spec),
      shape_(shape_of_shard(spec, static_cast<std::int32_t>(table.num_devices()))),
      signals_(signals),
      table_(&table),
      timer_(*device.device) {
  TANDEM_CHECK(!has_words() || signals.clock != nullptr);
  for (auto& step : steps_) step = device_->create_event();
  const auto num_slots = static_cast<std::size_t>(table.num_slots());
  loads_.resize(num_slots);
  loading_.reserve(num_slots);
}

Result<std::unique_ptr<LoadQueue>> LoadQueue::create(const TierDevice& device, std::size_t rank,
                                                     const ModelSpec& spec,
                                                     const LoadSignals& signals,
                                                     DeviceTable& table) {
  std::unique_ptr<LoadQueue> queue(new LoadQueue(device, rank, spec, signals, table));
  TANDEM_ASSIGN(queue->stream_, device.device->create_stream("adapter load"));
  return queue;
}

LoadQueue::~LoadQueue() {
  if (stream_ != nullptr) (void)stream_->synchronize();  // its failures no longer matter
}

void LoadQueue::check_whole() const {
  if (torn_) throw std::bad_alloc();
}

// The state of loads.

LoadQueue::Load* LoadQueue::find(const ServedAdapter& adapter) const {
  const SlotId slot = table_->slot_of(adapter);
  return !slot.valid() ? nullptr : loads_[slot.index()].get();
}

std::optional<ArrivingAdapter> LoadQueue::arriving(const ServedAdapter& adapter) const {
  check_whole();
  const Load* const load = find(adapter);
  if (load == nullptr || load->layers.empty()) return std::nullopt;
  const bool is_shared = table_->num_devices() > 1;
  if (!is_shared && load->whole != nullptr && load->whole->passed()) return std::nullopt;
  const SlotId slot = table_->slot_of(adapter);
  return ArrivingAdapter{
      slot,         load->generation, load->source,  table_->row(slot).reading.get(),
      load->layers, load->b_parts,    load->arrivals};
}

AdapterLease LoadQueue::arriving_in(SlotId slot) const {
  check_whole();
  return loads_[slot.index()] == nullptr ? nullptr : table_->row(slot).adapter;
}

std::vector<double> LoadQueue::unread(const ServedAdapter& adapter) const {
  const SlotId slot = table_->slot_of(adapter);
  if (!slot.valid() || table_->row(slot).reading == nullptr) return {};
  return table_->row(slot).reading->seconds_left();
}

void LoadQueue::wait(const ServedAdapter& adapter, std::int64_t layer, PieceKind kind,
                     Stream& stream) {
  check_whole();
  const Load* const load = find(adapter);
  if (load == nullptr || load->sent.empty()) return;
  const auto l = static_cast<std::size_t>(layer);
  if (kind == PieceKind::layer) let_go();
  hurry(*load, l, kind == PieceKind::b ? kPartB : kBothParts);
  Event* event = kind == PieceKind::b ? load->b_parts[l].get() : nullptr;
  if (event == nullptr) {  // for B that travelled with A
    let_go();
    event = load->layers[l].get();
  }
  stream.wait(*event);
}

bool LoadQueue::has_room() const {
  return operations_ahead_ + queue_.size() * kOperationsOfPiece <= kMostAhead;
}

void LoadQueue::hurry(const Load& load, std::size_t layer, unsigned parts) {
  while ((load.sent[layer] & parts) != parts) {
    while (operations_ahead_ > kMostAhead && !ahead_.empty()) {
      let_go();  // a held piece never passes
      look();
      std::this_thread::sleep_for(kRoomPoll);
    }
    send_next();
  }
}

// From the reservation to the queue.

std::int64_t LoadQueue::bytes_loading() const {
  std::int64_t bytes = 0;
  for (const SlotId slot : loading_) {
    bytes += static_cast<std::int64_t>(table_->row(slot).adapter->device_bytes());
  }
  return bytes;
}

bool LoadQueue::is_full() const {
  return queue_.size() > kMostQueued;
}

void LoadQueue::reserve(SlotId slot, AdapterBytes source, std::uint32_t generation) {
  auto& load = loads_[slot.index()];
  TANDEM_CHECK(load == nullptr, "slot {} is being loaded", slot.value());
  load = std::make_unique<Load>();  // loading_ has room
  load->source = std::move(source);
  if (signals_.clock != nullptr) load->reserved = signals_.clock->now();
  load->generation = generation;
  loading_.push_back(slot);
  if (signals_.cold_starts != nullptr) {
    signals_.cold_starts->load_ordered(*table_->row(slot).adapter);
  }
}

void LoadQueue::forget(SlotId slot) noexcept {
  loads_[slot.index()].reset();
  std::erase(loading_, slot);
}

// Events are created when they are recorded: until then nothing has passed.
void LoadQueue::enqueue(std::span<const SlotId> slots, std::span<const LoadPiece> order) {
  if (slots.empty()) return;
  check_whole();
  const Guard guard(*this);
  if (has_words()) {
    // An idle link is free, even if it was expected to wait for a disk that turned out to be
    // faster.
    const TimePoint now = signals_.clock->now();
    const bool idle = queue_.empty() && ahead_.empty();
    link_free_at_ = idle ? now : std::max(link_free_at_, now);
  }
  for (const SlotId slot : slots) {
    Load& each = load(slot);
    const std::size_t layers = table_->row(slot).adapter->part().layers.size();
    each.layers.resize(layers);
    each.b_parts.resize(layers);
    each.arrivals.resize(layers);
    each.queued.assign(layers, 0);
    each.sent.assign(layers, 0);
    if (!has_words()) continue;
    table_->write_later(rank_, slot);
    each.unread = unread(*table_->row(slot).adapter);
  }
  const TimePoint now = has_words() ? signals_.clock->now() : TimePoint{};
  for (const LoadPiece& piece : order) {
    const auto index = static_cast<std::size_t>(piece.adapter);
    TANDEM_CHECK(index < slots.size(), "adapter {} of {}", piece.adapter, slots.size());
    queue_piece(slots[index], piece.layer, piece.kind, now);
  }
  for (const SlotId slot : slots) {
    for (std::size_t layer = 0; layer < load(slot).sent.size(); ++layer) {
      queue_piece(slot, static_cast<std::int32_t>(layer), PieceKind::layer, now);
    }
  }
  // Enough pieces for the link to begin with. The rest is enqueued with the step, or after it.
  look();
  while (!queue_.empty() && operations_ahead_ < kFewAhead) send_next();
}

std::vector<AdapterStrip> LoadQueue::strips(SlotId slot, std::size_t layer, unsigned parts) const {
  const ServedAdapter& adapter = *table_->row(slot).adapter;
  const Shard shard{static_cast<std::int32_t>(rank_),
                    static_cast<std::int32_t>(table_->num_devices())};
  return strips_of_layer(adapter.contents(), adapter.part(), spec_, shape_, shard, layer,
                         {(parts & kPartA) != 0, (parts & kPartB) != 0});
}

// Leaves out parts that are in the queue already.
void LoadQueue::queue_piece(SlotId slot, std::int32_t layer, PieceKind kind, TimePoint now) {
  Load& of = load(slot);
  const auto l = static_cast<std::size_t>(layer);
  TANDEM_CHECK(layer >= 0 && l < of.queued.size(), "layer {} of {}", layer, of.queued.size());
  const unsigned wanted = kind == PieceKind::a   ? kPartA
                          : kind == PieceKind::b ? kPartB
                                                 : kBothParts;
  const unsigned parts = wanted & ~unsigned{of.queued[l]};
  if (parts == 0) return;
  of.queued[l] = static_cast<std::uint8_t>(of.queued[l] | parts);
  double seconds = 0;
  for (const AdapterStrip& strip : strips(slot, l, parts)) {
    seconds += signals_.copy_s + static_cast<double>(strip.bytes()) / signals_.link_bytes_per_s;
  }
  TimePoint begins = link_free_at_;
  if (!of.unread.empty()) begins = std::max(begins, now + duration_of(of.unread[l]));
  link_free_at_ = begins + duration_of(seconds * link_factor_);
  if ((parts & kPartA) != 0) of.arrivals[l].a = link_free_at_;
  if ((parts & kPartB) != 0) of.arrivals[l].b = link_free_at_;
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
  for (const SlotId slot : loading_) {
    if (const auto& reading = table_->row(slot).reading; reading != nullptr) {
      reading->end_if_overdue();
    }
  }
}

// The slot may belong to another load by now.
void LoadQueue::note_arrival(const Ahead& passed) {
  if (signals_.cold_starts == nullptr) return;
  const std::unique_ptr<Load>& of = loads_[passed.slot.index()];
  if (of == nullptr || of->generation != passed.generation) return;
  if (of->sent[passed.layer] != kBothParts) return;
  signals_.cold_starts->layer_there(*table_->row(passed.slot).adapter, passed.layer);
}

bool LoadQueue::is_due(const Piece& piece) const {
  if (operations_ahead_ < kFewAhead) return true;
  if (operations_ahead_ >= kMostAhead) return false;
  return !has_words() || piece.begins <= signals_.clock->now() + kAhead;
}

void LoadQueue::send_next() {
  TANDEM_CHECK(!queue_.empty(), "nothing is left to be sent");
  const Guard guard(*this);
  const Piece piece = queue_.front();
  queue_.pop_front();
  const std::size_t flags = signals_.words == LoadSignals::Words::layers ? 1 : 0;
  std::size_t operations = 2 + begin(piece.slot);
  if (has_words() && ahead_.empty()) timer_.begin(*stream_);
  operations += copy(piece) + flags;
  timer_.add(piece.model_s);
  const Event* const event = mark_sent(piece);
  if (queue_.empty()) timer_.end(*stream_);
  // An A without its B has no event: its operations count with the next piece.
  operations_ahead_ += operations;
  operations_untold_ += operations;
  if (event == nullptr) return;
  ahead_.push_back({event, std::exchange(operations_untold_, 0), piece.slot, piece.layer,
                    load(piece.slot).generation});
}

void LoadQueue::hold(std::uint32_t* word, std::uint32_t value) {
  hold_ = word;
  hold_value_ = value;
}

void LoadQueue::let_go() {
  if (hold_ == nullptr) return;
  std::atomic_ref<std::uint32_t>(*std::exchange(hold_, nullptr))
      .store(hold_value_, std::memory_order_release);
}

// The ends of loads, and of steps.

Status LoadQueue::poll(std::vector<SlotId>& there) {
  check_whole();
  if (!loading_.empty() && stream_->failed()) {
    Status status = stream_->synchronize();
    drop_all(there);
    return status;
  }
  feed();
  for (const SlotId slot : loading_) {
    const std::unique_ptr<Event>& whole = load(slot).whole;
    if (whole != nullptr && whole->passed()) there.push_back(slot);
  }
  return {};
}

void LoadQueue::end(SlotId slot) {
  if (signals_.clock != nullptr) {
    load_times_.count(kAdapterLoadBounds,
                      seconds_between(load(slot).reserved, signals_.clock->now()));
  }
  if (trace::on() && rank_ == 0) trace_load(slot);  // loads on other devices are alike
  end_load(slot, true);
  std::erase(loading_, slot);
}

void LoadQueue::drop_all(std::vector<SlotId>& ended) {
  ended.insert(ended.end(), loading_.begin(), loading_.end());
  for (const SlotId slot : loading_) end_load(slot, false);
  loading_.clear();
  queue_.clear();
  ahead_.clear();
  timer_.forget();
  operations_ahead_ = 0;
  operations_untold_ = 0;
  torn_ = false;
}

void LoadQueue::await_readings() noexcept {
  for (const SlotId slot : loading_) {
    const auto& reading = table_->row(slot).reading;
    if (reading == nullptr) continue;
    try {
      (void)reading->wait();
    } catch (const std::bad_alloc&) {  // from making the message; it has ended
    }
  }
}

// Apart from its own work, the stream only waits for layers that are still being read.
Status LoadQueue::abandon(std::vector<SlotId>& ended) noexcept {
  await_readings();
  Status status;
  try {
    status = stream_->synchronize();
  } catch (const std::bad_alloc&) {  // from making the message; this shorter one needs no memory
    status = Status(StatusCode::fatal, "out of memory");
  }
  drop_all(ended);
  return status;
}

void LoadQueue::end_load(SlotId slot, bool well) {
  Load& old = load(slot);
  if (signals_.cold_starts != nullptr) {
    signals_.cold_starts->load_ended(*table_->row(slot).adapter, well);
  }
  for (auto* events : {&old.layers, &old.b_parts}) {
    for (auto& event : *events) {
      if (event != nullptr) spare_events_.push_back(std::move(event));
    }
  }
  for (auto* event : {&old.whole, &old.begins}) {
    if (*event != nullptr) spare_events_.push_back(std::move(*event));
  }
  loads_[slot.index()].reset();
}

Status LoadQueue::finish() {
  while (!queue_.empty()) send_next();
  return stream_->synchronize();
}

void LoadQueue::step_enqueued(Stream& stream, std::uint64_t number) {
  num_steps_ = number;
  stream.record(*steps_[number % steps_.size()]);
}

}  // namespace tandem
