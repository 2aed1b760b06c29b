// tandem generate: one prompt, streamed to standard output. Everything else goes to standard error.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "engine/server/messages/adapter_templates.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/serving.h"
#include "tools/cli/signals.h"
#include "tools/generate/generate.h"
#include "tools/generate/generate_request.h"
#include "tools/settings/engine_settings.h"
#include "tools/setup/engine_setup.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "generate", "--model DIR -p TEXT [flags]",
    "Continues one prompt, or answers it with --chat, without a server. The text goes to standard\n"
    "output as it is generated; Ctrl-C stops it and keeps the text so far (exit status 130).",
    "  tandem generate --model tests/data/demo-llama -p 'def read_lines(path):'\n"
    "  tandem generate --model tests/data/demo-llama --adapters tests/data/demo-llama/adapters \\\n"
    "    --adapter cheader -p '#ifndef _UTIL_H'"};

constexpr std::size_t kMaxPromptBytes = std::size_t{64} << 20;

Result<std::string> read_prompt(const GenerateSettings& settings) {
  if (!settings.prompt.empty()) return settings.prompt;
  if (isatty(STDIN_FILENO) == 1) return invalid("no prompt; give -p TEXT, or pipe it in");
  std::string text;
  char chunk[65536];
  while (true) {
    const ssize_t count = read(STDIN_FILENO, chunk, sizeof chunk);
    if (count < 0) return errno_status("standard input", errno);
    if (count == 0) break;
    text.append(chunk, static_cast<std::size_t>(count));
    if (text.size() > kMaxPromptBytes)
      return invalid("the prompt is longer than {}", size_text(kMaxPromptBytes));
  }
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return invalid("the prompt is empty; give -p TEXT, or pipe it in");
  return text;
}

// Adds the adapter that --adapter names to `adapters` if it is missing, and returns its name.
Result<std::string> choose_adapter(const std::string& wanted, std::vector<NamedAdapter>& adapters) {
  if (wanted.empty()) return std::string();
  std::vector<std::string> names;
  for (const NamedAdapter& adapter : adapters) {
    if (adapter.name == wanted) return wanted;
    names.push_back(adapter.name);
  }
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(wanted) / "adapter_config.json", ignored)) {
    adapters.push_back({wanted, wanted});
    return wanted;
  }
  if (wanted.find('=') == std::string::npos) {
    return error(StatusCode::not_found,
                 "adapter: '{}' is neither a folder with an adapter_config.json nor {}", wanted,
                 names.empty() ? "a name from --adapters, which is not given"
                               : fmt::format("one of {}", fmt::join(names, ", ")));
  }
  TANDEM_ASSIGN(const auto named, list_adapters("", {wanted}));
  adapters.push_back(named.front());
  return named.front().name;
}

// `own`: the adapter's templates; null: it has none of its own.
Result<std::vector<TokenId>> encode_prompt(const CompletionCall& call, const TextCodec& codec,
                                           const ChatTemplates* own) {
  if (!call.chat) return codec.encode(*call.prompts.front().text, true);
  if (own == nullptr && !codec.has_chat_template()) {
    return invalid(
        "chat: this checkpoint has no chat template; leave --chat out, or give --chat-template "
        "FILE");
  }
  TANDEM_ASSIGN(const std::string text, codec.render_chat(call.chat_input, {.adapter = own}));
  return codec.encode_chat(text);
}

struct Answer {
  std::string text;
  std::vector<TokenId> tokens;
  FinishReason finish = FinishReason::none;
};

const char* finish_text(FinishReason finish) {
  switch (finish) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::failed:
      return "failed";
    case FinishReason::none:
      break;
  }
  return "none";
}

// Writes and flushes. A write error is returned, since a full disk must not look like a short
// answer.
Status print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return {};
  }
  return errno_status("cannot write to standard output", errno);
}

// Reads until the answer ends and prints it meanwhile unless `quiet`. A stop signal cancels the
// rest.
Result<Answer> read_answer(Generation& generation, const StopSignals& signals, bool quiet) {
  Answer answer;
  while (!generation.done()) {
    if (signals.stop_requested()) generation.cancel();
    auto delta = generation.next(std::chrono::milliseconds(50));
    if (!delta) continue;
    if (delta->finish == FinishReason::failed) return delta->error;
    answer.text += delta->text;
    answer.tokens.insert(answer.tokens.end(), delta->tokens.begin(), delta->tokens.end());
    if (delta->finish != FinishReason::none) answer.finish = delta->finish;
    if (!quiet) TANDEM_TRY(print(delta->text));
  }
  return answer;
}

double tokens_per_second(const GenerationStats& stats) {
  const double decoding = stats.total_s - stats.ttft_s;
  return stats.completion_tokens > 1 && decoding > 0 ? (stats.completion_tokens - 1) / decoding : 0;
}

Status print_json(const EngineSetup& setup, const std::string& adapter, const std::string& prompt,
                  const Answer& answer, const GenerationStats& stats) {
  const nlohmann::json out = {
      {"model", setup.model_name},
      {"adapter", adapter.empty() ? nlohmann::json() : nlohmann::json(adapter)},
      {"prompt", prompt},
      {"text", answer.text},
      {"token_ids", answer.tokens},
      {"finish_reason", finish_text(answer.finish)},
      {"usage",
       {{"prompt_tokens", stats.prompt_tokens}, {"completion_tokens", stats.completion_tokens}}},
      {"timing",
       {{"ttft_s", stats.ttft_s},
        {"total_s", stats.total_s},
        {"tokens_per_second", tokens_per_second(stats)}}}};
  return print(out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

Result<int> generate(const EngineSettings& engine_settings, const GenerateSettings& settings) {
  TANDEM_ASSIGN(const auto signals, StopSignals::create());
  TANDEM_ASSIGN(auto adapters, list_adapters(engine_settings.adapters, engine_settings.adapter));
  TANDEM_ASSIGN(const std::string adapter, choose_adapter(settings.adapter, adapters));
  // There is one request, so only its adapter is loaded.
  std::erase_if(adapters, [&](const NamedAdapter& other) { return other.name != adapter; });
  for (NamedAdapter& wanted : adapters) wanted.is_found = false;  // unusable is an error
  TANDEM_ASSIGN(const std::string prompt, read_prompt(settings));
  TANDEM_ASSIGN(CompletionCall call, read_call(settings, prompt, engine_settings.seed));
  TANDEM_ASSIGN(const auto setup, set_up_engine(engine_settings, adapters,
                                                LoadReport::terminal_only, FirstCosts::figures));
  GenerationRequest& request = call.request;
  request.adapter = adapter;
  AdapterTemplates adapter_templates;
  const auto own = engine_settings.chat_template.empty()
                       ? adapter_templates.find(*setup->engine, *setup->text, adapter)
                       : nullptr;
  const auto text = text_with_adapter(*setup->text, *setup->engine, adapter);
  TANDEM_ASSIGN(request.prompt, encode_prompt(call, *text, own.get()));

  signals->set_graceful(true);
  TANDEM_ASSIGN(const auto generation, setup->engine->submit(std::move(request)));
  TANDEM_ASSIGN(const Answer answer, read_answer(*generation, *signals, settings.json));
  const GenerationStats stats = generation->stats();
  if (settings.json) {
    TANDEM_TRY(print_json(*setup, adapter, prompt, answer, stats));
  } else {
    TANDEM_TRY(print("\n"));
    if (isatty(STDERR_FILENO) == 1) {
      fmt::print(stderr, "[{} tokens, {:.1f} tokens/s, first token after {:.3f} s, {}]\n",
                 stats.completion_tokens, tokens_per_second(stats), stats.ttft_s,
                 finish_text(answer.finish));
    }
  }
  return signals->exit_status(kExitOk);
}

}  // namespace

int run_generate(const std::vector<std::string>& args) {
  EngineSettings engine;
  engine.log.log_level = "warning";  // the log should not be mixed with the answer
  engine.options.max_num_seqs = 1;
  ServerSettings server;
  GenerateSettings settings;
  SettingsTable table;
  add_generate_settings(table, settings);
  add_engine_settings(table, engine, server, {.adapters = true, .handoff = true, .batching = true});
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  set_up_log(engine.log);
  const Result<int> status = generate(engine, settings);
  return status ? *status : report_serving_failure(kInfo, status.status());
}

}  // namespace tandem
