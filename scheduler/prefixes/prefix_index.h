// Which engines were sent prompts that begin alike, and so may have what was computed of them in
// their prefix caches. Engines do not tell what their caches hold: this is a guess from what was
// sent, and a wrong one costs time, never a wrong token, as engines compare tokens.
//
//   hash of a beginning -> [engine, how far its count was when it was sent it]
//
// An engine keeps what was used of late, in the room of its KV. So each engine has a count of the
// tokens that were new to it, and what it was sent is gone when its count has moved on by its room.
// What other routers send to it moves no count here.
//
// Whatever clients send, no more than `max_entries` pairs of a beginning and an engine are kept;
// beginnings that were not sent for longest are forgotten first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduler/policies/engine_view.h"
#include "scheduler/prefixes/prompt_blocks.h"

namespace tandem {

// No I/O, no clock. Not thread-safe.
class PrefixIndex {
 public:
  static constexpr std::size_t kMaxEntries = 1U << 18;  // some 40 MB at most

  explicit PrefixIndex(std::size_t max_entries = kMaxEntries) : max_entries_(max_entries) {}

  // Room for KV; none, as at first: the engine keeps nothing.
  void set_room(EngineIndex engine, std::int64_t tokens) { at(engine).room = tokens; }
  // A prompt went there, whose KV will be `tokens` with its answer's. Returns how many of its
  // leading tokens the engine is believed to have had.
  std::int64_t sent(EngineIndex engine, std::span<const PromptBlock> prompt, std::int64_t tokens);
  // It begins anew, or is gone: its cache is empty.
  void forget(EngineIndex engine);

  // Of the engines that are believed to have a beginning of the prompt the longest each, by engine.
  // Valid until the next call. Takes time with the engines that have one, and no more than
  // kMostLooked of them in all.
  std::span<const PrefixHit> find(std::span<const PromptBlock> prompt);

  std::size_t num_entries() const { return entries_; }

 private:
  static constexpr std::size_t kMostLooked = 4096;

  struct Engine {
    std::int64_t room = 0;
    std::int64_t count = 0;  // of tokens that were new to it
    std::int64_t began = 0;  // what was before that is gone
  };
  struct Seen {
    EngineIndex engine;
    std::int64_t count = 0;  // the engine's, then
  };
  struct Block {
    std::uint64_t hash = 0;
    std::vector<Seen> seen;  // by engine
  };
  using Blocks = std::list<Block>;

  Engine& at(EngineIndex engine);
  bool is_there(const Seen& seen) const {
    const Engine& engine = engines_[seen.engine.index()];
    return seen.count >= engine.began && engine.count - seen.count < engine.room;
  }
  Block& use(std::uint64_t hash);
  void erase(Blocks::iterator block);
  void merge(const Block& block, std::int64_t tokens);

  const std::size_t max_entries_;
  std::vector<Engine> engines_;
  Blocks blocks_;  // the least recently sent first; a prompt's longer beginnings before its shorter
  std::unordered_map<std::uint64_t, Blocks::iterator> by_hash_;
  std::size_t entries_ = 0;
  std::vector<PrefixHit> hits_;
  std::vector<PrefixHit> merged_;  // scratch
};

}  // namespace tandem
