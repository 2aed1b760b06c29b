// The operations of a load's piece on the stream: those before the first piece, the copies, and the
// words and events after them.
#include <algorithm>
#include <utility>

#include "base/trace/tracer.h"
#include "engine/adapters/device/load_queue.h"

namespace tandem {

// Prepares the first piece. If the chunks were in use until recently, the stream waits for the last
// step that reads them. A load into chunks that have been free for longer begins at once.
std::size_t LoadQueue::begin(SlotId slot) {
  if (std::exchange(load(slot).begun, true)) return 0;
  const std::uint64_t last = table_->row(slot).free_since;
  Event& step = *steps_[last % steps_.size()];
  if (last + steps_.size() > num_steps_ && !step.passed()) {
    stream_->wait(step);
    timer_.forget();
  }
  if (!has_words()) table_->write(rank_, *stream_, slot);
  if (trace::on()) {
    load(slot).begun_at = SteadyClock().now();
    load(slot).begins = record_event();
  }
  return 4;
}

std::size_t LoadQueue::copy(const Piece& piece) {
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
  const std::byte* const source = load(piece.slot).source.get();
  for (const AdapterStrip& strip : strips(piece.slot, piece.layer, piece.parts)) {
    operations += copy_strip(row, source + strip.from, strip);
  }
  return operations;
}

// `source`: the strip's first byte. A row that extends over several chunks is copied in pieces.
std::size_t LoadQueue::copy_strip(const DeviceRow& row, const std::byte* source,
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
const Event* LoadQueue::mark_sent(const Piece& piece) {
  Load& of = load(piece.slot);
  const std::size_t l = piece.layer;
  const AdapterSlots& slots = table_->slots(rank_);
  if (signals_.words == LoadSignals::Words::layers) {
    stream_->set_flag(
        slots.ready(piece.slot, static_cast<std::int64_t>(l)) + (piece.parts == kPartB ? 1 : 0),
        of.generation, piece.parts == kBothParts ? 2 : 1);
  }
  of.sent[l] = static_cast<std::uint8_t>(of.sent[l] | piece.parts);
  if (piece.parts == kPartB) of.b_parts[l] = record_event();
  if (of.sent[l] == kBothParts) of.layers[l] = record_event();
  if (--of.pieces_left == 0) {
    of.whole = record_event();
    if (has_words()) {
      stream_->set_flag(slots.ready(piece.slot, static_cast<std::int64_t>(of.sent.size())),
                        of.generation, kNumLoadParts);
    }
    return of.whole.get();
  }
  return of.layers[l] != nullptr ? of.layers[l].get() : of.b_parts[l].get();
}

std::unique_ptr<Event> LoadQueue::record_event() {
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

}  // namespace tandem
