#include "tests/engine/handoff/protocol_model.h"

#include <cstring>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tests/engine/handoff/protocol_machine.h"

namespace tandem::protocol {
namespace {

struct Hash {
  std::size_t operator()(const State& state) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&state), sizeof(State)});
  }
};
struct Same {
  bool operator()(const State& a, const State& b) const {
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
};

class Walk {
 public:
  explicit Walk(const Scenario& scenario) : machine_(scenario) {}

  Verdict run() {
    visit(machine_.first(), 0, "");
    for (std::uint32_t at = 0; at < states_.size() && verdict_.violation.empty(); ++at) {
      expand(at);
    }
    if (verdict_.violation.empty()) find_cycle();
    verdict_.states = states_.size();
    return std::move(verdict_);
  }

 private:
  struct Origin {
    std::uint32_t from;
    const char* action;
  };

  std::uint32_t visit(State state, std::uint32_t from, const char* action) {
    machine_.settle(state);
    const auto [found, added] =
        numbers_.try_emplace(state, static_cast<std::uint32_t>(states_.size()));
    if (added) {
      states_.push_back(&found->first);
      origins_.push_back({from, action});
    }
    return found->second;
  }

  void expand(std::uint32_t at) {
    first_edge_.push_back(edges_.size());
    machine_.act(*states_[at], [&](const char* action, const State& next, const char* violation) {
      edges_.push_back(visit(next, at, action));
      if (violation != nullptr && verdict_.violation.empty()) {
        fail(violation, at);
        verdict_.trace.emplace_back(action);
      }
    });
    if (edges_.size() != first_edge_.back()) return;
    if (machine_.is_over(*states_[at])) {
      ++verdict_.ends;
    } else if (verdict_.violation.empty()) {
      fail("nothing goes on, and a request is unanswered", at);
    }
  }

  void fail(const char* violation, std::uint32_t at) {
    verdict_.violation = violation;
    for (; at != 0; at = origins_[at].from) {
      verdict_.trace.insert(verdict_.trace.begin(), origins_[at].action);
    }
  }

  // Removes states without incoming edges until none is left; a cycle remains.
  void find_cycle() {
    first_edge_.push_back(edges_.size());
    std::vector<std::uint32_t> incoming(states_.size());
    for (const std::uint32_t to : edges_) ++incoming[to];
    std::vector<std::uint32_t> free;
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      if (incoming[i] == 0) free.push_back(i);
    }
    std::size_t taken = 0;
    for (; !free.empty(); ++taken) {
      const std::uint32_t at = free.back();
      free.pop_back();
      for (std::size_t e = first_edge_[at]; e < first_edge_[at + 1]; ++e) {
        if (--incoming[edges_[e]] == 0) free.push_back(edges_[e]);
      }
    }
    if (taken == states_.size()) return;
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      if (incoming[i] != 0) return fail("something goes on for ever", i);
    }
  }

  const Machine machine_;
  std::unordered_map<State, std::uint32_t, Hash, Same> numbers_;
  std::vector<const State*> states_;  // pointers into the map, which are stable
  std::vector<Origin> origins_;
  std::vector<std::uint32_t> edges_;
  std::vector<std::size_t> first_edge_;
  Verdict verdict_;
};

}  // namespace

Verdict explore(const Scenario& scenario) {
  return Walk(scenario).run();
}

}  // namespace tandem::protocol
