// What XGrammar warns of, for those who must not let it pass: mostly parts of a schema or a pattern
// that it leaves out.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Collects what this thread's calls of XGrammar warn of, as long as it lives; one at a time in a
// thread. Without one the warnings go to the log, at level debug.
class XgrammarWarnings {
 public:
  XgrammarWarnings();
  ~XgrammarWarnings();
  XgrammarWarnings(const XgrammarWarnings&) = delete;
  XgrammarWarnings& operator=(const XgrammarWarnings&) = delete;

  const std::vector<std::string>& messages() const { return messages_; }

  void add(const std::string& message);

 private:
  std::vector<std::string> messages_;  // the first few
};

}  // namespace tandem
