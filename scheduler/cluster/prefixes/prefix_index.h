// Remembers which engines were sent prompts with the same beginning, and so may have it in their
// prefix caches. Engines do not report the content of their caches: this is a guess from the sent
// prompts. A wrong guess costs time but never causes a wrong token, because engines compare tokens.
//
//   hash of a beginning -> [engine, the engine's count when it was sent]
//
// An engine keeps recently used tokens as far as its KV has room. So each engine has a count of the
// tokens that were new to it, and a prompt is gone once the count has grown by the engine's room.
// Prompts from other routers do not change the count here.
//
// At most `max_entries` pairs of a beginning and an engine are kept, whatever clients send; the
// beginnings that were least recently sent are forgotten first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduler/cluster/prefixes/prompt_blocks.h"
#include "scheduler/cluster/view/engine_view.h"

namespace tandem {

// No I/O, no clock. Not thread-safe.
class PrefixIndex {
 public:
  static constexpr std::size_t kMaxEntries = 1U << 18;  // about 40 MB at most

  explicit PrefixIndex(std::size_t max_entries = kMaxEntries) : max_entries_(max_entries) {}

  // Sets the engine's room for KV; 0, the initial value: the engine keeps nothing.
  void set_room(EngineIndex engine, std::int64_t tokens) { at(engine).room = tokens; }
  // Records that a prompt was sent to the engine; `tokens`: its KV size including the answer.
  // Returns how many of its leading tokens the engine probably had.
  std::int64_t sent(EngineIndex engine, std::span<const PromptBlock> prompt, std::int64_t tokens);
  // Call it when the engine has restarted or left: its cache is empty.
  void forget(EngineIndex engine);

  // For each engine that probably has a beginning of the prompt, the longest such beginning, by
  // engine. Valid until the next call. Time is linear in the engines that have one, limited to
  // kMostLooked entries.
  std::span<const PrefixHit> find(std::span<const PromptBlock> prompt);

  std::size_t num_entries() const { return entries_; }

 private:
  static constexpr std::size_t kMostLooked = 4096;

  struct Engine {
    std::int64_t room = 0;
    std::int64_t count = 0;  // tokens that were new to it
    std::int64_t began = 0;  // entries with an earlier count are gone
  };
  struct Seen {
    EngineIndex engine;
    std::int64_t count = 0;  // the engine's count when it was sent
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
  // Least recently sent first; longer beginnings of a prompt come before shorter ones.
  Blocks blocks_;
  std::unordered_map<std::uint64_t, Blocks::iterator> by_hash_;
  std::size_t entries_ = 0;
  std::vector<PrefixHit> hits_;
  std::vector<PrefixHit> merged_;  // scratch
};

}  // namespace tandem
