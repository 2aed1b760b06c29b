#include "engine/adapters/device/load_stream.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/trace/tracer.h"

namespace tandem {

LoadStream::LoadStream(const TierDevice& device, Shard shard, const ModelSpec& spec,
                       const LoadSignals& signals, AdapterSlots slots, const DeviceTable& table)
    : device_(device.device),
      memory_(device.memory),
      shard_(shard),
      spec_(spec),
      shape_(shape_of_shard(spec, shard.size)),
      signals_(signals),
      table_(&table),
      slots_(std::move(slots)),
      timer_(*device.device) {
  for (auto& step : steps_) step = device_->create_event();
  unwritten_.reserve(static_cast<std::size_t>(table.num_slots()));
}

Result<std::unique_ptr<LoadStream>> LoadStream::create(const TierDevice& device, Shard shard,
                                                       const ModelSpec& spec,
                                                       const LoadSignals& signals,
                                                       AdapterSlots slots,
                                                       const DeviceTable& table) {
  std::unique_ptr<LoadStream> loads(
      new LoadStream(device, shard, spec, signals, std::move(slots), table));
  TANDEM_ASSIGN(loads->stream_, device.device->create_stream("adapter load"));
  return loads;
}

LoadStream::~LoadStream() {
  if (stream_ != nullptr) (void)stream_->synchronize();  // its failures no longer matter
}

std::vector<AdapterStrip> LoadStream::strips(SlotId slot, std::size_t layer, unsigned parts) const {
  const ServedAdapter& adapter = *table_->row(slot).adapter;
  return strips_of_layer(adapter.contents(), adapter.part(), spec_, shape_, shard_, layer,
                         {(parts & kPartA) != 0, (parts & kPartB) != 0});
}

double LoadStream::seconds_of(SlotId slot, std::size_t layer, unsigned parts) const {
  double seconds = 0;
  for (const AdapterStrip& strip : strips(slot, layer, parts)) {
    seconds += signals_.copy_s + static_cast<double>(strip.bytes()) / signals_.link_bytes_per_s;
  }
  return seconds;
}

LoadStream::Sent LoadStream::send(AdapterLoad& load, const QueuedPiece& piece, bool link_is_idle,
                                  bool is_last) {
  const std::size_t flags = signals_.words == LoadSignals::Words::layers ? 1 : 0;
  std::size_t operations = 2 + begin(load, piece.slot);
  if (signals_.has_words() && link_is_idle) timer_.begin(*stream_);
  operations += copy(load, piece) + flags;
  timer_.add(piece.model_s);
  const Event* const event = mark_sent(load, piece);
  if (is_last) timer_.end(*stream_);
  return {operations, event};
}

// Prepares the first piece. If the chunks were in use until recently, the stream waits for the last
// step that reads them. A load into chunks that have been free for longer begins at once.
std::size_t LoadStream::begin(AdapterLoad& load, SlotId slot) {
  if (std::exchange(load.begun, true)) return 0;
  const std::uint64_t last = table_->row(slot).free_since;
  Event& step = *steps_[last % steps_.size()];
  if (last + steps_.size() > num_steps_ && !step.passed()) {
    stream_->wait(step);
    timer_.forget();
  }
  if (!signals_.has_words()) write_rows(*stream_, slot);
  if (trace::on()) {
    load.begun_at = SteadyClock().now();
    load.begins = record_event();
  }
  return 4;
}

std::size_t LoadStream::copy(const AdapterLoad& load, const QueuedPiece& piece) {
  const DeviceRow& row = table_->row(piece.slot);
  std::size_t operations = 0;
  if (row.reading != nullptr && !row.reading->is_there(piece.layer)) {
    stream_->wait_flag(row.reading->word(piece.layer), row.reading->generation());
    timer_.forget();
    ++operations;
  }
  if (hold_ != nullptr && piece.parts != kPartB) {
    stream_->wait_flag(hold_, hold_value_);
    timer_.forget();
    ++operations;
  }
  for (const AdapterStrip& strip : strips(piece.slot, piece.layer, piece.parts)) {
    operations += copy_strip(row, load.source.get() + strip.from, strip);
  }
  return operations;
}

// `source`: the strip's first byte. A row that extends over several chunks is copied in pieces.
std::size_t LoadStream::copy_strip(const DeviceRow& row, const std::byte* source,
                                   const AdapterStrip& strip) {
  const auto runs =
      row.chunks.runs(strip.to, strip.to + strip.bytes(), memory_->layout().chunk_shift);
  std::size_t copies = 0;
  for (const ChunkRun& run : runs) {
    std::byte* to = memory_->chunk_base() + run.to;
    std::size_t at = run.from - strip.to;
    const std::size_t end = at + run.bytes;
    while (at < end) {
      const std::size_t in_row = at % strip.row_bytes;
      const std::byte* const from = source + at / strip.row_bytes * strip.pitch + in_row;
      std::size_t bytes = std::min(end - at, strip.row_bytes - in_row);
      if (const std::size_t rows = (end - at) / strip.row_bytes; in_row == 0 && rows > 1) {
        bytes = rows * strip.row_bytes;
        stream_->copy_rows_to_device(to, from, strip.row_bytes, strip.pitch, rows);
      } else {
        stream_->copy_to_device(to, from, bytes);
      }
      at += bytes;
      to += bytes;
      ++copies;
    }
  }
  return copies;
}

// Enqueues the words and events after a piece. Returns the last event, if any.
const Event* LoadStream::mark_sent(AdapterLoad& load, const QueuedPiece& piece) {
  const std::size_t l = piece.layer;
  if (signals_.words == LoadSignals::Words::layers) {
    stream_->set_flag(
        slots_.ready(piece.slot, static_cast<std::int64_t>(l)) + (piece.parts == kPartB ? 1 : 0),
        load.generation, piece.parts == kBothParts ? 2 : 1);
  }
  load.sent[l] = static_cast<std::uint8_t>(load.sent[l] | piece.parts);
  if (piece.parts == kPartB) load.b_parts[l] = record_event();
  if (load.sent[l] == kBothParts) load.layers[l] = record_event();
  if (--load.pieces_left == 0) {
    load.whole = record_event();
    if (signals_.has_words()) {
      stream_->set_flag(slots_.ready(piece.slot, static_cast<std::int64_t>(load.sent.size())),
                        load.generation, kNumLoadParts);
    }
    return load.whole.get();
  }
  return load.layers[l] != nullptr ? load.layers[l].get() : load.b_parts[l].get();
}

std::unique_ptr<Event> LoadStream::record_event() {
  std::unique_ptr<Event> event;
  if (spare_events_.empty()) {
    if (spare_events_.capacity() <= num_events_) spare_events_.reserve(2 * num_events_ + 16);
    event = trace::on() ? device_->create_timed_event() : device_->create_event();
    ++num_events_;
  } else {
    event = std::move(spare_events_.back());
    spare_events_.pop_back();
  }
  stream_->record(*event);
  return event;
}

void LoadStream::reuse_events(AdapterLoad& load) noexcept {
  for (auto* events : {&load.layers, &load.b_parts}) {
    for (auto& event : *events) {
      if (event != nullptr) spare_events_.push_back(std::move(event));
    }
  }
  for (auto* event : {&load.whole, &load.begins}) {
    if (*event != nullptr) spare_events_.push_back(std::move(*event));
  }
}

void LoadStream::hold(std::uint32_t* word, std::uint32_t value) {
  hold_ = word;
  hold_value_ = value;
}

void LoadStream::let_go() {
  if (hold_ == nullptr) return;
  std::atomic_ref<std::uint32_t>(*std::exchange(hold_, nullptr))
      .store(hold_value_, std::memory_order_release);
}

void LoadStream::write_rows(Stream& stream, SlotId slot) {
  const DeviceRow& row = table_->row(slot);
  slots_.write(stream, slot, row.adapter->part(), row.chunks.ids());
}

void LoadStream::write_later(SlotId slot) {
  if (std::ranges::find(unwritten_, slot) == unwritten_.end()) unwritten_.push_back(slot);
}

// An adapter may have left its slot since write_later().
void LoadStream::step_begins(Stream& stream) {
  for (const SlotId slot : unwritten_) {
    if (table_->row(slot).adapter != nullptr) write_rows(stream, slot);
  }
  unwritten_.clear();
}

void LoadStream::step_ends(Stream& stream, std::uint64_t number) {
  num_steps_ = number;
  stream.record(*steps_[number % steps_.size()]);
}

}  // namespace tandem
