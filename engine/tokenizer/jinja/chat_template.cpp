#include "engine/tokenizer/jinja/chat_template.h"

#include <new>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json/json_equals.h"
#include "base/json/json_text.h"
#include "engine/tokenizer/jinja/content_format.h"
#include "engine/tokenizer/jinja/continue_final.h"
#include "engine/tokenizer/jinja/render/builtins.h"
#include "engine/tokenizer/jinja/render/interpreter.h"
#include "engine/tokenizer/jinja/values/from_json.h"
#include "engine/tokenizer/utf8.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxTemplateBytes = 1U << 20;
constexpr std::uint64_t kMaxConfigBytes = 64U << 20;  // tokenizer_config.json can list all tokens
constexpr int kMaxConfigDepth = 32;

// A message may hold a text of the template's making; so much of it is told.
std::string shortened(std::string message) {
  constexpr std::size_t kMaxMessageBytes = 2048;
  if (message.size() <= kMaxMessageBytes) return message;
  message.resize(
      utf8::previous(std::string_view(message).substr(0, kMaxMessageBytes), kMaxMessageBytes));
  return message + "...";
}

Status status_of(const jinja::Error& error) {
  const std::string what = shortened(error.what());
  if (error.line == 0) return invalid("chat template: {}", what);
  return invalid("chat template, line {}: {}", error.line, what);
}

// What `work` throws, as a Status.
template <typename Work>
auto caught(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const jinja::Stopped& e) {
    return error(StatusCode::unavailable, "chat template: {}", e.what());
  } catch (const jinja::Raised& e) {
    return Status(StatusCode::invalid_argument, shortened(e.what()));
  } catch (const jinja::Error& e) {
    return status_of(e);
  } catch (const Json::exception& e) {
    return invalid("chat template: {}", e.what());
  } catch (const std::bad_alloc&) {
    return error(StatusCode::resource_exhausted, "no memory for the chat template");
  }
}

// The file's text; nothing if it is not there.
Result<std::optional<std::string>> read_if_there(const std::filesystem::path& path) {
  Result<std::string> text = read_text_file(path, kMaxConfigBytes);
  if (text) return std::optional<std::string>(std::move(*text));
  if (text.status().code() == StatusCode::not_found) return std::optional<std::string>();
  return text.status();
}

Result<Json> parse_config(const std::string& text, const std::filesystem::path& path) {
  if (nests_deeper_than(text, kMaxConfigDepth))
    return invalid("{}: nested deeper than {}", path.string(), kMaxConfigDepth);
  Json config;
  try {
    config = Json::parse(text);
  } catch (const Json::exception& e) {
    return invalid("{}: {}", path.string(), e.what());
  }
  if (!config.is_object()) return invalid("{} must be an object", path.string());
  return config;
}

// Tokens are strings, or objects with a "content".
Json special_tokens(const Json& config) {
  Json tokens = Json::object();
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token")) continue;
    if (value.is_string()) tokens[key] = value;
    if (!value.is_object()) continue;
    if (const auto content = value.find("content"); content != value.end() && content->is_string())
      tokens[key] = *content;
  }
  return tokens;
}

// A template by itself, or the one named "default" of a list.
std::optional<std::string> template_of(const Json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return std::nullopt;
  for (const Json& entry : *found) {
    if (!entry.is_object()) continue;
    const auto name = entry.find("name");
    const auto source = entry.find("template");
    if (name == entry.end() || !is_text(*name, "default")) continue;
    if (source != entry.end() && source->is_string()) return source->get<std::string>();
  }
  return std::nullopt;
}

}  // namespace

struct ChatTemplate::Impl {
  std::string source;
  jinja::Body body;
  Json tokens;

  // Requires a budget in force.
  std::string render(const ChatInput& input) const {
    jinja::Interpreter interpreter;
    jinja::add_globals(interpreter);
    for (const Json* variables : {&tokens, &input.variables})
      for (const auto& [name, value] : variables->items())
        interpreter.set_global(name, jinja::from_json(value));
    interpreter.set_global("messages", jinja::from_json(input.messages));
    interpreter.set_global("add_generation_prompt", jinja::Value(input.add_generation_prompt));
    return std::string(interpreter.render(body));
  }
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::parse(std::string_view source,
                                                          const Json& special_tokens) {
  if (source.size() > kMaxTemplateBytes)
    return invalid("chat template of {} bytes; at most {} are allowed", source.size(),
                   kMaxTemplateBytes);
  if (!utf8::valid(source)) return invalid("the chat template is not valid UTF-8");
  if (!special_tokens.is_object()) return invalid("special tokens must be an object");
  return caught([&]() -> Result<std::unique_ptr<ChatTemplate>> {
    auto impl = std::make_unique<Impl>();
    impl->source = source;
    impl->body = jinja::parse(source, {jinja::find_filter, jinja::find_test});
    impl->tokens = special_tokens;
    return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(impl)));
  });
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::load(const std::filesystem::path& dir) {
  const std::filesystem::path config_path = dir / "tokenizer_config.json";
  TANDEM_ASSIGN(const std::optional<std::string> config_text, read_if_there(config_path));
  Json config = Json::object();
  if (config_text) {
    TANDEM_ASSIGN(config, parse_config(*config_text, config_path));
  }
  const std::filesystem::path jinja_path = dir / "chat_template.jinja";
  TANDEM_ASSIGN(std::optional<std::string> source, read_if_there(jinja_path));
  const std::string where = source ? jinja_path.string() : config_path.string();
  if (!source) source = template_of(config);
  if (!source)
    return error(StatusCode::not_found,
                 "{} has no chat template (chat_template.jinja, or "
                 "chat_template in tokenizer_config.json)",
                 dir.string());
  auto result = parse(*source, special_tokens(config));
  if (!result) return result.status().with_context(where);
  return result;
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::parse_another(std::string_view source) const {
  return parse(source, impl_->tokens);
}

Result<std::string> ChatTemplate::render(const ChatInput& input, const RenderLimits& limits) const {
  return caught([&]() -> Result<std::string> {
    const SteadyClock steady;
    const Clock& clock = limits.clock == nullptr ? steady : *limits.clock;
    jinja::Budget budget({},
                         {.stopped = [&] { return limits.stopped != nullptr && *limits.stopped; },
                          .now = [&] { return clock.now(); },
                          .deadline = clock.now() + limits.timeout});
    const jinja::Budget::Scope scope(budget);
    if (!input.continue_final_message) return impl_->render(input);
    ChatInput marked = input;
    TANDEM_ASSIGN(const std::string shown, jinja::mark_end(marked.messages));
    return jinja::cut_at_mark(impl_->render(marked), shown);
  });
}

std::string_view ChatTemplate::source() const {
  return impl_->source;
}

bool ChatTemplate::reads_content_parts() const {
  return jinja::loops_over_content(impl_->body);
}

}  // namespace tandem
