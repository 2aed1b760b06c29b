// Settings of `tandem generate`, and the request that they make.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/settings/settings.h"
#include "base/status.h"
#include "engine/server/messages/request/request_fields.h"

namespace tandem {

struct GenerateSettings {
  std::string prompt;
  bool chat = false;
  std::string system;
  std::string adapter;
  bool json = false;
  std::int64_t max_tokens = 128;
  std::int64_t min_tokens = 0;
  double temperature = 0;
  double top_p = 1;
  std::int64_t top_k = 0;
  double min_p = 0;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

void add_generate_settings(SettingsTable& table, GenerateSettings& settings);

// Makes the request and checks it as a server does, with the same error messages.
Result<CompletionCall> read_call(const GenerateSettings& settings, const std::string& prompt,
                                 std::int64_t seed);

}  // namespace tandem
