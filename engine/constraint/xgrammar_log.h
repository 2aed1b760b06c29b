// Captures XGrammar's warnings, which are mostly about parts of a schema or a pattern that it
// ignores, so that they can become errors.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Collects the warnings of XGrammar calls on this thread during its life; one object at a time per
// thread. Without it warnings go to the log, at level debug.
class XgrammarWarnings {
 public:
  XgrammarWarnings();
  ~XgrammarWarnings();
  XgrammarWarnings(const XgrammarWarnings&) = delete;
  XgrammarWarnings& operator=(const XgrammarWarnings&) = delete;

  const std::vector<std::string>& messages() const { return messages_; }

  void add(const std::string& message);

 private:
  std::vector<std::string> messages_;  // the first few only
};

}  // namespace tandem
