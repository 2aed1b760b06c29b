#include "tools/bench/measure/byte_floor.h"

#include <algorithm>
#include <vector>

namespace tandem {
namespace {

struct Sequence {
  const TracedRequest* request;
  std::int32_t tokens = 0;  // with keys and values in memory
  std::int32_t left = 0;    // to generate
};

class Steps {
 public:
  explicit Steps(const ByteCosts& costs) : costs_(costs) {}

  bool empty() const { return running_.empty(); }
  // Returns false if there is no room for the request in the next step.
  bool take(const TracedRequest& request) {
    const double tokens = request.prompt_tokens + request.output_tokens;
    const double more = tokens * costs_.token_bytes +
                        (users_.contains(request.adapter) ? 0 : bytes_of(request.adapter));
    // A request on its own always runs, whatever its size.
    if (!running_.empty() && (static_cast<std::int32_t>(running_.size()) >= costs_.max_sequences ||
                              prompt_tokens_ + request.prompt_tokens > costs_.max_prompt_tokens ||
                              held_bytes_ + more > costs_.pool_bytes)) {
      return false;
    }
    held_bytes_ += more;
    prompt_tokens_ += request.prompt_tokens;
    ++users_[request.adapter];
    running_.push_back({&request, request.prompt_tokens, request.output_tokens});
    return true;
  }
  double step() {  // seconds
    double bytes = costs_.weight_bytes;
    for (const Sequence& sequence : running_) bytes += sequence.tokens * costs_.token_bytes;
    for (const auto& [name, users] : users_) bytes += bytes_of(name);
    const double seconds =
        std::max(bytes / costs_.copy, prompt_tokens_ * costs_.token_products / costs_.products);
    prompt_tokens_ = 0;
    for (Sequence& sequence : running_) {
      ++sequence.tokens;
      if (--sequence.left <= 0) release(*sequence.request);
    }
    std::erase_if(running_, [](const Sequence& sequence) { return sequence.left <= 0; });
    return seconds;
  }

 private:
  double bytes_of(const std::string& adapter) const {
    const auto found = costs_.adapter_bytes.find(adapter);
    return found == costs_.adapter_bytes.end() ? 0 : found->second;
  }
  void release(const TracedRequest& request) {
    held_bytes_ -= (request.prompt_tokens + request.output_tokens) * costs_.token_bytes;
    const auto user = users_.find(request.adapter);
    if (--user->second > 0) return;
    held_bytes_ -= bytes_of(request.adapter);
    users_.erase(user);
  }

  const ByteCosts& costs_;
  std::vector<Sequence> running_;
  std::map<std::string, int> users_;  // number of running sequences by adapter
  std::int32_t prompt_tokens_ = 0;    // in the next step
  double held_bytes_ = 0;
};

}  // namespace

double least_seconds(const ArrivalTrace& trace, const ByteCosts& costs) {
  if (trace.empty()) return 0;
  Steps steps(costs);
  double now = trace.front().at_s;
  for (std::size_t next = 0; next < trace.size() || !steps.empty();) {
    if (steps.empty()) now = std::max(now, trace[next].at_s);
    while (next < trace.size() && trace[next].at_s <= now && steps.take(trace[next])) ++next;
    now += steps.step();
  }
  return now - trace.front().at_s;
}

}  // namespace tandem
