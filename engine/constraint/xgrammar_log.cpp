#include "engine/constraint/xgrammar_log.h"

#include <stdexcept>

#include "base/log/log.h"

namespace tandem {
namespace {

thread_local XgrammarWarnings* collector = nullptr;

}  // namespace

XgrammarWarnings::XgrammarWarnings() {
  collector = this;
}

XgrammarWarnings::~XgrammarWarnings() {
  collector = nullptr;
}

void XgrammarWarnings::add(const std::string& message) {
  constexpr std::size_t kMost = 8;
  if (messages_.size() < kMost) messages_.push_back(message);
}

}  // namespace tandem

// XGrammar calls this if it is built with XGRAMMAR_LOG_CUSTOMIZE.
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& file, int line, const std::string& message);
void LogMessageImpl(const std::string& file, int line, int level, const std::string& message);

void LogFatalImpl(const std::string& /*file*/, int /*line*/, const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string& /*file*/, int /*line*/, int level,
                    const std::string& message) {
  constexpr int kWarning = 2;
  if (tandem::collector != nullptr && level >= kWarning) {
    tandem::collector->add(message);
  } else {
    tandem::log::debug("xgrammar: {}", message);
  }
}

}  // namespace xgrammar
