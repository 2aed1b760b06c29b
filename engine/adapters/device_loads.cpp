// How loads travel: their pieces in the planned order, put on the load stream in time.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/adapters/device_tier.h"
#include "engine/base/check.h"

namespace tandem {
namespace {

// A stream's queue is finite (about 1,000 operations on CUDA), enqueueing on a full one blocks the
// engine, and each operation costs it microseconds that the next step would begin later. So pieces
// go onto the load stream some milliseconds ahead of the link, what enqueueing a step takes and
// more, except those that a step waits for. A few always, should the link be faster than known.
constexpr std::size_t kMostAhead = 400;
constexpr std::size_t kFewAhead = 32;
constexpr std::chrono::milliseconds kAhead{4};

Duration duration_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Where the layer's bytes end: where the next adapted layer's begin.
std::vector<std::size_t> layer_ends(const Adapter& adapter) {
  std::vector<std::size_t> ends(adapter.layers.size());
  std::size_t end = adapter.num_bytes;
  for (std::size_t layer = adapter.layers.size(); layer-- > 0;) {
    ends[layer] = end;
    for (const AdapterMatrix& matrix : adapter.layers[layer]) {
      if (matrix.rank > 0) end = std::min<std::size_t>(end, matrix.a_offset);
    }
  }
  return ends;
}

}  // namespace

// Steps before the last two have ended: a load into what has long been free begins at once.
void DeviceTier::wait_for_readers(const ServedAdapter& adapter) {
  const std::uint64_t last =
      std::max(pool_->last_release(adapter.device_.chunks.ids()),
               slot_released_[static_cast<std::size_t>(adapter.device_.slot)]);
  if (last + steps_.size() > pool_->steps()) stream_->wait(*steps_[last % steps_.size()]);
}

// Events are there when they are recorded: until then nothing has passed.
void DeviceTier::enqueue(std::span<const LoadPiece> order) {
  if (reserved_.empty()) return;
  if (has_words()) link_free_at_ = std::max(link_free_at_, signals_.clock->now());
  for (const AdapterLease& adapter : reserved_) {
    ServedAdapter::OnDevice& on_device = adapter->device_;
    const std::size_t layers = adapter->contents_.layers.size();
    on_device.layers.resize(layers);
    on_device.b_parts.resize(layers);
    on_device.arrivals.resize(layers);
    on_device.ends = layer_ends(adapter->contents_);
    on_device.queued.assign(layers, 0);
    on_device.sent.assign(layers, 0);
    on_device.pieces_left = 0;
    on_device.begun = false;
    if (has_words()) unwritten_.push_back(adapter);
  }
  for (const LoadPiece& piece : order) {
    const auto index = static_cast<std::size_t>(piece.adapter);
    TANDEM_CHECK(index < reserved_.size(), "adapter {} of {}", piece.adapter, reserved_.size());
    queue_piece(*reserved_[index], piece.layer, piece.kind);
  }
  for (const AdapterLease& adapter : reserved_) {
    for (std::size_t layer = 0; layer < adapter->contents_.layers.size(); ++layer) {
      queue_piece(*adapter, static_cast<std::int32_t>(layer), PieceKind::layer);
    }
  }
  reserved_.clear();
  feed();
}

std::vector<std::pair<std::size_t, std::size_t>> DeviceTier::byte_ranges(
    const ServedAdapter& adapter, std::size_t layer, unsigned parts) {
  const std::vector<std::size_t>& ends = adapter.device_.ends;
  const std::size_t end = ends[layer];
  if (parts == kBothParts) return {{layer == 0 ? 0 : ends[layer - 1], end}};
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  const auto& modules = adapter.contents_.layers[layer];
  std::size_t next = end;  // where the module after it begins
  for (std::size_t m = modules.size(); m-- > 0;) {
    if (modules[m].rank == 0) continue;
    const std::size_t middle = modules[m].b_offset;
    ranges.emplace_back(parts == kPartA ? modules[m].a_offset : middle,
                        parts == kPartA ? middle : next);
    next = modules[m].a_offset;
  }
  return ranges;
}

// What of the piece is in the queue already is not sent again.
void DeviceTier::queue_piece(ServedAdapter& adapter, std::int32_t layer, PieceKind kind) {
  ServedAdapter::OnDevice& on_device = adapter.device_;
  const auto l = static_cast<std::size_t>(layer);
  TANDEM_CHECK(layer >= 0 && l < on_device.queued.size(), "layer {} of {}", layer,
               on_device.queued.size());
  const unsigned wanted = kind == PieceKind::a   ? kPartA
                          : kind == PieceKind::b ? kPartB
                                                 : kBothParts;
  const unsigned parts = wanted & ~unsigned{on_device.queued[l]};
  if (parts == 0) return;
  on_device.queued[l] = static_cast<std::uint8_t>(on_device.queued[l] | parts);
  double seconds = 0;
  for (const auto& [begin, end] : byte_ranges(adapter, l, parts)) {
    seconds += signals_.copy_s + static_cast<double>(end - begin) / signals_.link_bytes_per_s;
  }
  const TimePoint begins = link_free_at_;
  link_free_at_ += duration_of(seconds);
  if ((parts & kPartA) != 0) on_device.arrivals[l].a = link_free_at_;
  if ((parts & kPartB) != 0) on_device.arrivals[l].b = link_free_at_;
  ++on_device.pieces_left;
  queue_.push_back({&adapter, l, parts, begins});
}

void DeviceTier::feed() {
  while (!ahead_.empty() && ahead_.front().event->passed()) {
    operations_ahead_ -= ahead_.front().operations;
    ahead_.pop_front();
  }
  while (!queue_.empty() && is_due(queue_.front())) send_next();
}

bool DeviceTier::is_due(const QueuedPiece& piece) const {
  if (operations_ahead_ < kFewAhead) return true;
  if (operations_ahead_ >= kMostAhead) return false;
  return !has_words() || piece.begins <= signals_.clock->now() + kAhead;
}

void DeviceTier::hurry(const ServedAdapter& adapter, std::int64_t layer, PieceKind kind) {
  const ServedAdapter::OnDevice& on_device = adapter.device_;
  if (on_device.sent.empty()) return;
  const auto l = static_cast<std::size_t>(layer);
  const unsigned parts = kind == PieceKind::b ? kPartB : kBothParts;
  while ((on_device.sent[l] & parts) != parts) send_next();
}

void DeviceTier::drop_queue() {
  queue_.clear();
  ahead_.clear();
  operations_ahead_ = 0;
  unwritten_.clear();
}

void DeviceTier::send_next() {
  TANDEM_CHECK(!queue_.empty(), "nothing is left to be sent");
  const QueuedPiece piece = queue_.front();
  queue_.pop_front();
  ServedAdapter& adapter = *piece.adapter;
  ServedAdapter::OnDevice& on_device = adapter.device_;
  const std::size_t l = piece.layer;
  std::size_t operations = 2;
  if (!on_device.begun) {
    on_device.begun = true;
    wait_for_readers(adapter);
    if (!has_words()) {
      slots_.write(*stream_, on_device.slot, adapter.contents_, on_device.chunks.ids());
    }
    operations += 4;
  }
  if (on_device.reading != nullptr && !on_device.reading->is_there(l)) {
    stream_->wait_flag(on_device.reading->word(l), on_device.reading->generation());
    ++operations;
  }
  for (const auto& [begin, end] : byte_ranges(adapter, l, piece.parts)) {
    const auto runs = on_device.chunks.runs(begin, end, memory_->layout().chunk_shift);
    for (const ChunkRun& run : runs) {
      stream_->copy_to_device(memory_->chunk_base() + run.to, on_device.source.get() + run.from,
                              run.bytes);
    }
    operations += runs.size();
  }
  const auto layer = static_cast<std::int64_t>(l);
  if (signals_.words == LoadSignals::Words::layers) {
    stream_->set_flag(slots_.ready(on_device.slot, layer) + (piece.parts == kPartB ? 1 : 0),
                      on_device.generation, piece.parts == kBothParts ? 2 : 1);
    ++operations;
  }
  on_device.sent[l] = static_cast<std::uint8_t>(on_device.sent[l] | piece.parts);
  if (piece.parts == kPartB) on_device.b_parts[l] = record_event();
  if (on_device.sent[l] == kBothParts) on_device.layers[l] = record_event();
  const Event* event =
      on_device.layers[l] != nullptr ? on_device.layers[l].get() : on_device.b_parts[l].get();
  if (--on_device.pieces_left == 0) {
    on_device.whole = record_event();
    event = on_device.whole.get();
    if (has_words()) {
      stream_->set_flag(
          slots_.ready(on_device.slot, static_cast<std::int64_t>(on_device.sent.size())),
          on_device.generation, kNumLoadParts);
    }
  }
  // An A without its B has no event: it counts with what comes next.
  operations_ahead_ += operations;
  operations_untold_ += operations;
  if (event == nullptr) return;
  ahead_.push_back({event, std::exchange(operations_untold_, 0)});
}

std::unique_ptr<Event> DeviceTier::record_event() {
  std::unique_ptr<Event> event = take_event();
  stream_->record(*event);
  return event;
}

}  // namespace tandem
