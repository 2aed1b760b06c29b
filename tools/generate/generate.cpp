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

#include "base/log.h"
#include "engine/server/messages/adapter_templates.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/settings.h"
#include "tools/cli/signals.h"
#include "tools/generate/generate.h"
#include "tools/setup/engine_setup.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "generate", "--model DIR -p TEXT [flags]",
    "Continues one prompt, or answers it with --chat, without a server. The text goes to standard\n"
    "output as it is made; Ctrl-C stops it and keeps what is there (exit status 130).",
    "  tandem generate --model tests/data/demo-llama -p 'def read_lines(path):'\n"
    "  tandem generate --model tests/data/demo-llama --adapters tests/data/demo-llama/adapters \\\n"
    "    --adapter cheader -p '#ifndef _UTIL_H'"};

constexpr std::size_t kMaxPromptBytes = std::size_t{64} << 20;

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

void add_generate_settings(SettingsTable& table, GenerateSettings& s) {
  table.group("Prompt");
  table.add(s.prompt, "prompt", "the prompt; without it, standard input (less one last newline)")
      .flag_only()
      .short_flag('p');
  table.add(s.chat, "chat", "the prompt is a user's message: apply the chat template").flag_only();
  table.add(s.system, "system", "a system message before it, with --chat").flag_only();
  table
      .add(s.adapter, "use_adapter",
           "the adapter to use: a name from --adapters, a folder, or NAME=DIR")
      .flag_as("adapter")
      .meta("NAME|DIR")
      .flag_only();
  table.group("Output");
  table.add(s.json, "json", "print one JSON object at the end instead of the text").flag_only();
  table.add(s.max_tokens, "max_tokens", "longest answer").range(1, 1 << 30).flag_only();
  table.add(s.min_tokens, "min_tokens", "shortest answer").range(0, 1 << 30).flag_only();
  table.add(s.stop, "stop", "end before this text; may be repeated").flag_only();
  table.add(s.ignore_eos, "ignore_eos", "go on after the model's end token").flag_only();
  table.group("Sampling");
  table.add(s.temperature, "temperature", "0: always the most likely token")
      .range(0, 100)
      .flag_only();
  table.add(s.top_p, "top_p", "only the likeliest tokens that together have this probability")
      .range(0, 1)
      .flag_only();
  table.add(s.top_k, "top_k", "only the k likeliest tokens; 0: all").range(0, 1 << 30).flag_only();
  table.add(s.min_p, "min_p", "only tokens this likely, as a share of the likeliest")
      .range(0, 1)
      .flag_only();
  table.add(s.repetition_penalty, "repetition_penalty", "above 1: seen tokens get less likely")
      .range(0.01, 100)
      .flag_only();
  table.add(s.presence_penalty, "presence_penalty", "taken off tokens already written")
      .range(-2, 2)
      .flag_only();
  table.add(s.frequency_penalty, "frequency_penalty", "the same, per time written")
      .range(-2, 2)
      .flag_only();
}

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
      return invalid("the prompt is over {} bytes", kMaxPromptBytes);
  }
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return invalid("the prompt is empty; give -p TEXT, or pipe it in");
  return text;
}

// Adds what --adapter names to `adapters` if it is not there yet, and returns its name.
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

// `own`: the adapter's templates; null: it has none.
Result<std::vector<TokenId>> encode_prompt(const GenerateSettings& settings,
                                           const std::string& prompt, const EngineSetup& setup,
                                           const ChatTemplates* own) {
  if (!settings.chat) return setup.tokenizer->encode(prompt, true);
  if (own == nullptr && setup.chat_templates == nullptr) {
    return invalid(
        "chat: this checkpoint has no chat template; leave --chat out, or give --chat-template "
        "FILE");
  }
  ChatInput chat;
  if (!settings.system.empty()) {
    chat.messages.push_back({{"role", "system"}, {"content", settings.system}});
  }
  chat.messages.push_back({{"role", "user"}, {"content", prompt}});
  TANDEM_ASSIGN(const std::string text, setup.text->render_chat(chat, {.adapter = own}));
  return setup.text->encode_chat(text);
}

GenerationRequest make_request(const GenerateSettings& settings, std::int64_t seed) {
  GenerationRequest request;
  request.sampling.temperature = settings.temperature;
  request.sampling.top_p = settings.top_p;
  request.sampling.top_k = static_cast<std::int32_t>(settings.top_k);
  request.sampling.min_p = settings.min_p;
  request.sampling.repetition_penalty = settings.repetition_penalty;
  request.sampling.presence_penalty = settings.presence_penalty;
  request.sampling.frequency_penalty = settings.frequency_penalty;
  request.sampling.seed = static_cast<std::uint64_t>(seed);
  request.max_tokens = static_cast<std::int32_t>(settings.max_tokens);
  request.min_tokens = static_cast<std::int32_t>(settings.min_tokens);
  request.stop = settings.stop;
  request.ignore_eos = settings.ignore_eos;
  return request;
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

// To standard output, at once. A full disk must not pass for a short answer.
Status print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return {};
  }
  return errno_status("cannot write to standard output", errno);
}

// Reads to the end, printing as it goes unless `quiet`. A stop signal cancels the rest.
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
  // One request: only its adapter is worth loading.
  std::erase_if(adapters, [&](const NamedAdapter& other) { return other.name != adapter; });
  for (NamedAdapter& wanted : adapters) wanted.is_found = false;  // without it there is no answer
  TANDEM_ASSIGN(const std::string prompt, read_prompt(settings));
  TANDEM_ASSIGN(const auto setup, set_up_engine(engine_settings, adapters,
                                                LoadReport::terminal_only, FirstCosts::figures));
  GenerationRequest request = make_request(settings, engine_settings.seed);
  request.adapter = adapter;
  AdapterTemplates adapter_templates;
  const auto own = engine_settings.chat_template.empty()
                       ? adapter_templates.find(*setup->engine, *setup->text, adapter)
                       : nullptr;
  TANDEM_ASSIGN(request.prompt, encode_prompt(settings, prompt, *setup, own.get()));

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
  engine.log.log_level = "warning";  // the answer is what matters here
  engine.max_num_seqs = 1;
  ServerSettings server;
  GenerateSettings settings;
  SettingsTable table;
  add_generate_settings(table, settings);
  add_engine_settings(table, engine, server, {.adapters = true, .handoff = true, .batching = true});
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  set_up_log(engine.log);
  const Result<int> status = generate(engine, settings);
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
