#include "engine/constraint/grammar_codec.h"

#include <compiled_grammar_impl.h>
#include <grammar_impl.h>
#include <tokenizer_info_impl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/constraint/byte_stream.h"

// XGrammar's classes list their members for its own JSON (member_trait). The code below iterates
// over the same tables, so that a member added by a later version is included.
namespace tandem {
namespace {

using xgrammar::AdaptiveTokenMask;
using xgrammar::CompactFSM;
using xgrammar::CompactFSMWithStartEnd;
using xgrammar::CompactFSMWithStartEndWithSize;
using xgrammar::DynamicBitset;
using xgrammar::FSMEdge;
using xgrammar::Grammar;
using xgrammar::ParserState;

template <typename T>
inline constexpr bool kHasMembers =
    xgrammar::member_trait<T>::value == xgrammar::member_type::kConfig;
template <typename T>
inline constexpr bool kCopies =
    kIsPlain<T> && !xgrammar::is_std_optional<T>::value && !xgrammar::is_std_pair<T>::value;

// Writes the automaton that all rules share once, at the start (Grammar::Impl's table); the rules
// refer to it.
class GrammarWriter {
 public:
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_.plain(static_cast<std::uint8_t>(value));
    } else if constexpr (std::is_same_v<T, std::string>) {
      out_.text(value);
    } else if constexpr (xgrammar::is_std_optional<T>::value) {
      put(value.has_value());
      if (value) put(*value);
    } else if constexpr (xgrammar::is_std_pair<T>::value) {
      put(value.first);
      put(value.second);
    } else if constexpr (xgrammar::is_std_vector<T>::value) {
      put_list(value);
    } else if constexpr (kCopies<T>) {
      out_.plain(value);
    } else {
      static_assert(kHasMembers<T>);
      xgrammar::visit_config<T>([&](auto member, const char*, std::size_t) { put(value.*member); });
    }
  }

  void put(const CompactFSM& fsm) {
    put(fsm.IsNull());
    if (fsm.IsNull()) return;
    const bool is_shared = shared_ != nullptr && fsm.ImplPtr() == shared_;
    put(is_shared);
    if (is_shared) return;
    if (shared_ == nullptr) shared_ = fsm.ImplPtr();
    put(fsm.GetEdges());
    put(fsm.GetEdgeAuxData());
  }

  void put(const CompactFSMWithStartEndWithSize& fsm) {
    put(fsm.GetFsm().GetFsm());
    put(static_cast<std::int32_t>(fsm.GetFsm().GetStart()));
    put(fsm.GetFsm().GetEnds());
    put(static_cast<std::int32_t>(fsm.GetEdgeNum()));
    put(static_cast<std::int32_t>(fsm.GetNodeNum()));
  }

  void put(const DynamicBitset& bits) {
    std::vector<std::uint32_t> words(
        static_cast<std::size_t>(DynamicBitset::GetBufferSize(bits.Size())));
    DynamicBitset copy(bits.Size(), words.data());
    if (!words.empty()) copy |= bits;
    put(static_cast<std::int32_t>(bits.Size()));
    put(words);
  }

  std::string take() { return out_.take(); }

 private:
  template <typename T>
  void put_list(const std::vector<T>& values) {
    if constexpr (kCopies<T>) {
      out_.plain_list(values);
    } else {
      out_.plain(static_cast<std::uint64_t>(values.size()));
      for (const T& each : values) put(each);
    }
  }

  ByteWriter out_;
  const void* shared_ = nullptr;
};

// Checks that every edge leads to an existing state and every auxiliary index is valid.
// Grammar::Impl::Validate() checks that rules exist.
bool is_sound(const xgrammar::Compact2DArray<FSMEdge>& edges,
              const std::vector<std::int32_t>& auxiliary) {
  if (edges.Validate()) return false;
  const auto size = static_cast<std::int64_t>(auxiliary.size());
  const auto edge_is_sound = [&](const FSMEdge& edge) {
    if (edge.target < 0 || edge.target >= edges.size()) return false;
    if (!edge.IsAuxEdge()) return true;
    const std::int64_t at = edge.max;
    if (at < 0 || at >= size) return false;
    if (edge.IsRepeatRef()) return at + 3 <= size;
    const std::int64_t count = auxiliary[static_cast<std::size_t>(at)];
    return count >= 0 && at + 1 + count <= size;
  };
  for (std::int32_t state = 0; state < edges.size(); ++state) {
    const auto row = edges[state];
    if (!std::all_of(row.begin(), row.end(), edge_is_sound)) return false;
  }
  return true;
}

class GrammarReader {
 public:
  explicit GrammarReader(std::string_view bytes) : in_(bytes) {}

  template <typename T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = in_.plain<std::uint8_t>() != 0;
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = in_.text();
    } else if constexpr (xgrammar::is_std_optional<T>::value) {
      bool has = false;
      get(has);
      if (has) get(value.emplace());
    } else if constexpr (xgrammar::is_std_pair<T>::value) {
      get(value.first);
      get(value.second);
    } else if constexpr (xgrammar::is_std_vector<T>::value) {
      get_list(value);
    } else if constexpr (kCopies<T>) {
      value = in_.plain<T>();
    } else {
      static_assert(kHasMembers<T>);
      xgrammar::visit_config<T>([&](auto member, const char*, std::size_t) { get(value.*member); });
    }
  }

  void get(CompactFSM& fsm) {
    bool is_null = false, is_shared = false;
    get(is_null);
    if (is_null) return;
    get(is_shared);
    if (is_shared) {
      sound_ = sound_ && shared_.has_value();
      if (sound_) fsm = *shared_;
      return;
    }
    xgrammar::Compact2DArray<FSMEdge> edges;
    std::vector<std::int32_t> auxiliary;
    get(edges);
    get(auxiliary);
    sound_ = is_ok() && is_sound(edges, auxiliary);
    if (!sound_) return;
    fsm = CompactFSM(std::move(edges), std::move(auxiliary));
    if (!shared_) shared_ = fsm;
  }

  void get(CompactFSMWithStartEndWithSize& value) {
    CompactFSM fsm{xgrammar::NullObj{}};
    std::int32_t start = 0, edges = 0, nodes = 0;
    std::vector<std::int32_t> ends;
    get(fsm);
    get(start);
    get(ends);
    get(edges);
    get(nodes);
    if (!is_ok() || fsm.IsNull()) {
      sound_ = false;
      return;
    }
    const auto is_state = [&](std::int32_t state) { return state >= 0 && state < fsm.NumStates(); };
    sound_ = is_state(start) && std::all_of(ends.begin(), ends.end(), is_state);
    if (!sound_) return;
    value = CompactFSMWithStartEndWithSize(CompactFSMWithStartEnd(fsm, start, std::move(ends)),
                                           edges, nodes);
  }

  void get(DynamicBitset& bits) {
    std::int32_t size = 0;
    std::vector<std::uint32_t> words;
    get(size);
    get(words);
    sound_ = is_ok() && size >= 0 && size <= kMostBits &&
             words.size() == static_cast<std::size_t>(DynamicBitset::GetBufferSize(size));
    if (!sound_) return;
    bits = DynamicBitset(size);
    if (size > 0) bits |= DynamicBitset(size, words.data());
  }

  // False after a read beyond the end or an invalid value.
  bool is_ok() const { return sound_ && in_.ok(); }
  bool is_at_end() const { return sound_ && in_.is_at_end(); }
  std::size_t count(std::size_t bytes_each) { return in_.count(bytes_each); }

 private:
  static constexpr std::int32_t kMostBits = 1 << 26;  // limit on the tokens of a vocabulary

  template <typename T>
  void get_list(std::vector<T>& values) {
    if constexpr (kCopies<T>) {
      values = in_.plain_list<T>();
    } else {
      const std::size_t count = in_.count(1);
      values.clear();
      for (std::size_t i = 0; i < count && is_ok(); ++i) get(values.emplace_back());
    }
  }

  ByteReader in_;
  std::optional<CompactFSM> shared_;
  bool sound_ = true;
};

// Checks a mask for `vocab_size` tokens, `sorted` of which have a text.
bool is_sound(const AdaptiveTokenMask& mask, std::int32_t vocab_size, std::size_t sorted) {
  using StoreType = AdaptiveTokenMask::StoreType;
  const auto are_indices = [&](const std::vector<std::int32_t>& indices) {
    return std::all_of(indices.begin(), indices.end(), [&](std::int32_t index) {
      return index >= 0 && static_cast<std::size_t>(index) < sorted;
    });
  };
  const bool is_known = mask.store_type == StoreType::kAccepted ||
                        mask.store_type == StoreType::kRejected ||
                        mask.store_type == StoreType::kAcceptedBitset;
  return is_known &&
         (mask.store_type != StoreType::kAcceptedBitset ||
          mask.accepted_bitset.Size() == vocab_size) &&
         are_indices(mask.accepted_indices) && are_indices(mask.rejected_indices) &&
         are_indices(mask.uncertain_indices);
}

}  // namespace

std::string encode_grammar(const xgrammar::CompiledGrammar& grammar) {
  const xgrammar::CompiledGrammar::Impl& compiled = *grammar.ImplPtr();
  GrammarWriter out;
  out.put(*compiled.grammar.ImplPtr());
  out.put(static_cast<std::uint64_t>(compiled.adaptive_token_mask_cache.size()));
  for (const auto& [state, mask] : compiled.adaptive_token_mask_cache) {
    out.put(state);
    out.put(mask);
  }
  return out.take();
}

Result<xgrammar::CompiledGrammar> decode_grammar(std::string_view bytes,
                                                 const xgrammar::TokenizerInfo& vocabulary) {
  const Status no_grammar = invalid("these {} bytes are no grammar", bytes.size());
  GrammarReader in(bytes);
  auto grammar = std::make_shared<Grammar::Impl>();
  in.get(*grammar);
  if (!in.is_ok() || grammar->Validate()) return no_grammar;
  auto compiled = std::make_shared<xgrammar::CompiledGrammar::Impl>();
  compiled->grammar = Grammar(std::move(grammar));
  compiled->tokenizer_info = vocabulary;
  const std::size_t sorted = vocabulary.GetSortedDecodedVocab().size();
  const std::size_t masks = in.count(sizeof(ParserState));
  compiled->adaptive_token_mask_cache.reserve(masks);
  for (std::size_t i = 0; i < masks && in.is_ok(); ++i) {
    ParserState state;
    AdaptiveTokenMask mask;
    in.get(state);
    in.get(mask);
    if (!in.is_ok() || !is_sound(mask, vocabulary.GetVocabSize(), sorted)) return no_grammar;
    compiled->adaptive_token_mask_cache.emplace(state, std::move(mask));
  }
  if (!in.is_at_end()) return no_grammar;
  return xgrammar::CompiledGrammar(std::move(compiled));
}

}  // namespace tandem
