#include "engine/tokenizer/jinja/chat_template.h"

#include <new>
#include <nlohmann/json.hpp>

#include "base/json/json_release.h"
#include "base/limits/bytes_text.h"
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

// Truncates a message, because it may contain text made by the template.
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

// Converts exceptions of `work` to a Status.
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

}  // namespace

struct ChatTemplate::Impl {
  std::string source;
  jinja::Body body;
  Json tokens;

  // Requires an active budget.
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
    return invalid("the chat template has {}, more than the {} allowed", size_text(source.size()),
                   size_text(kMaxTemplateBytes));
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
    const EmptiedFromLeaves messages_at_end(marked.messages);
    const EmptiedFromLeaves variables_at_end(marked.variables);
    TANDEM_ASSIGN(const std::string shown, jinja::mark_end(marked.messages));
    return jinja::cut_at_mark(impl_->render(marked), shown);
  });
}

std::string_view ChatTemplate::source() const {
  return impl_->source;
}

const nlohmann::ordered_json& ChatTemplate::special_tokens() const {
  return impl_->tokens;
}

bool ChatTemplate::reads_content_parts() const {
  return jinja::loops_over_content(impl_->body);
}

}  // namespace tandem
